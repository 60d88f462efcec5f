/** Times and sizes of the sweep, in one place; tests change them. */
export interface SweepTuning {
  /** How often it looks whether jobs were lost or somebody asks for a round. */
  readonly tickMs: number;
  /** Between two rounds when nothing is missing. */
  readonly roundMs: number;
  /** Between two rounds while jobs pile up: what is missing is most likely among them. */
  readonly backlogRoundMs: number;
  /** Rows are left to the stream for so long after their commit. */
  readonly graceMs: number;
  /** While the queue has jobs, a row is given so long to be among them. */
  readonly patienceMs: number;
  /** Between two tries of another process to lead. */
  readonly standbyMs: number;
  /** Rows compared by one pair of statements. */
  readonly pageRows: number;
  readonly pagesPerRound: number;
  /** Missing rows that are remembered, and so on the queue at a time; some 20 MB. */
  readonly maxMissing: number;
  /** Their text on the queue at a time. */
  readonly maxBytes: number;
  /** Between two passes along the ledger to compact it. */
  readonly compactMs: number;
  /** The last rows of the ledger, which are not compacted. */
  readonly ledgerKeepRows: number;
  /** Nor are those that were told since. */
  readonly ledgerMinAgeMs: number;
}

export const defaultTuning: SweepTuning = {
  tickMs: 500,
  roundMs: 2_000,
  backlogRoundMs: 10_000,
  graceMs: 3_000,
  patienceMs: 60_000,
  standbyMs: 2_000,
  pageRows: 10_000,
  pagesPerRound: 20,
  maxMissing: 50_000,
  maxBytes: 64 * 1024 * 1024,
  compactMs: 30_000,
  ledgerKeepRows: 65_536,
  ledgerMinAgeMs: 60_000,
};
