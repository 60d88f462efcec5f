/**
 * Every error that emend raises on purpose: a stable code, what happened and where, and what to do about it.
 *
 * The code alone decides how the program reacts (`disposition`), so that no caller reads message texts:
 * - `refuse`: the input, the configuration or what it leads to is wrong; nothing was changed; the CLI exits with 2.
 * - `retry`: the world is not as it should be just now (a server is away); loops back off and try again; a command exits with 1.
 * - `manual`: a human has to act, and going on would risk a law; loops stop and say so; a command exits with 1.
 */
export type Disposition = 'refuse' | 'retry' | 'manual';

const dispositions = {
  bad_arguments: 'refuse',
  config_invalid: 'refuse',
  config_not_found: 'refuse',
  correction_invalid: 'refuse',
  target_invalid: 'refuse',
  target_unknown: 'refuse',
  migration_destructive: 'refuse',
  migration_conflict: 'refuse',
  permission_missing: 'refuse',
  server_unsuitable: 'refuse',
  queue_unsuitable: 'refuse',
  not_settled: 'refuse',
  dependency_missing: 'refuse',
  connection_invalid: 'refuse',
  connection_failed: 'retry',
  queue_unavailable: 'retry',
  queue_stalled: 'retry',
  source_unavailable: 'retry',
  store_unavailable: 'retry',
  timed_out: 'retry',
  reference_missing: 'retry',
  key_fenced: 'retry',
  backfill_busy: 'retry',
  rebuild_busy: 'retry',
  archive_unreadable: 'refuse',
  archive_busy: 'retry',
  restore_incomplete: 'manual',
  checks_failed: 'refuse',
  backfill_refused: 'refuse',
  not_migrated: 'manual',
  slot_in_use: 'retry',
  publication_missing: 'manual',
  protocol_violation: 'manual',
  batch_invalid: 'manual',
  invariant_broken: 'manual',
} as const satisfies Record<string, Disposition>;

export type ErrorCode = keyof typeof dispositions;

/** One finding of a check: where (a path such as `targets.prices.key`), what is wrong, and what to do. */
export interface Problem {
  readonly path: string;
  readonly problem: string;
  readonly remedy: string;
}

export class EmendError extends Error {
  override readonly name = 'EmendError';
  readonly code: ErrorCode;
  /** What the reader of the message should do, as a sentence. */
  readonly remedy: string;
  /** All findings, where a check found several at once. */
  readonly problems: readonly Problem[];

  constructor(
    code: ErrorCode,
    message: string,
    details: { remedy: string; problems?: readonly Problem[]; cause?: unknown },
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.remedy = details.remedy;
    this.problems = details.problems ?? [];
  }

  get disposition(): Disposition {
    return dispositionOf(this.code);
  }
}

export function dispositionOf(code: ErrorCode): Disposition {
  return dispositions[code];
}

export function isEmendError(error: unknown): error is EmendError {
  return error instanceof EmendError;
}
