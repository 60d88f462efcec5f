/** A place in the order in which batches came. */
export interface Turn {
  /** Resolves when all that came before have had their turn. */
  readonly comes: Promise<void>;
  /** Lets the next one have its turn; may be said twice. */
  end(): void;
}

/**
 * Turns to take keys. Batches of one process are merged side by side, and of two that change one key, the one that came first
 * is told first. Only the taking of locks is in turn: whoever changes other keys does not wait for the merge.
 */
export function createTurns(): () => Turn {
  let last = Promise.resolve();
  return () => {
    const comes = last;
    let end = (): void => undefined;
    last = new Promise((resolve) => (end = resolve));
    return { comes, end };
  };
}
