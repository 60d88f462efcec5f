/** Times of the queue, in one place; tests shorten them. */
export interface Tuning {
  /** How long one call may take before it counts as failed: a connection without an answer says nothing by itself. */
  readonly addTimeoutMs: number;
  /** A job whose worker has not renewed its lock for so long may be given to another worker. */
  readonly lockMs: number;
  /** How often abandoned jobs are looked for. A job comes back after its lock has ended and two looks. */
  readonly stalledCheckMs: number;
  /** How long an idle worker sleeps without being woken. */
  readonly idleSeconds: number;
  /** Jobs wait, a slot is free, and nothing was picked up for so long: the worker is replaced. */
  readonly stuckMs: number;
  readonly firstRetryMs: number;
  readonly lastRetryMs: number;
}

export const defaultTuning: Tuning = {
  addTimeoutMs: 10_000,
  lockMs: 30_000,
  stalledCheckMs: 15_000,
  idleSeconds: 5,
  stuckMs: 30_000,
  firstRetryMs: 100,
  lastRetryMs: 30_000,
};
