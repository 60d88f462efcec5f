import type { Problem } from '../errors.ts';

/** What stands in the way of a queue. */
export interface Inspection {
  readonly problems: readonly Problem[];
  readonly state: QueueServerState;
}

/**
 * `away`: nobody answers. `stalled`: it answers and takes no writes just now, which passes without a change of the configuration.
 * `unfit`: it must not be used as it is.
 */
export type QueueServerState = 'fit' | 'away' | 'stalled' | 'unfit';

/** What a queue is refused with in these states. */
export const codeOfState = {
  away: 'queue_unavailable',
  stalled: 'queue_stalled',
  unfit: 'queue_unsuitable',
} as const satisfies Partial<Record<QueueServerState, string>>;
