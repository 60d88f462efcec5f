import type { Problem } from '../errors.ts';

/** What stands in the way of a queue. `reachable` tells a server that is away from one that must not be used. */
export interface Inspection {
  readonly problems: readonly Problem[];
  readonly reachable: boolean;
}
