import { randomBytes } from 'node:crypto';
import type { Broker } from './broker.ts';
import { answerOf } from './deadline.ts';

/**
 * The epoch is a random value beside the jobs: when it is gone, so are they. It does not see a server that came back
 * with an older state (a failover, the tail of an append-only file); that is the sweep's work.
 */
export interface Epoch {
  /** The epoch under which batches are published now; it is asked for when it is not known yet. */
  known(): Promise<string>;
  /** False once after the server's epoch has changed; from then on the new one is the current one. */
  isUnchanged(): Promise<boolean>;
  read(): Promise<string>;
}

export function createEpoch(broker: Broker, timeoutMs: number): Epoch {
  let current = '';

  async function readOrClaim(): Promise<string> {
    return (await broker.readEpoch()) ?? (await broker.claimEpoch(randomBytes(6).toString('hex')));
  }

  const read = (): Promise<string> => answerOf(timeoutMs, readOrClaim(), 'reading the epoch of the queue');

  return {
    async known() {
      if (current === '') current = await read();
      return current;
    },
    async isUnchanged() {
      const standing = await read();
      const unchanged = standing === current;
      current = standing;
      return unchanged;
    },
    read,
  };
}
