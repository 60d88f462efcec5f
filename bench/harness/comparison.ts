import type { Measured } from './measure.ts';
import type { BenchServer } from './server.ts';

/** Contestants that do the same work, and the ratios between them that are asked about. */
export interface Comparison {
  /** For the command line. */
  readonly name: string;
  readonly title: string;
  measure(server: BenchServer, size: Size): Promise<Measured[]>;
  readonly ratios: readonly Ratio[];
}

/** How much dearer a row is for one contestant than for the other, in the same round. */
export interface Ratio {
  readonly of: string;
  readonly to: string;
  /** What has to hold. Left out: told, and no more. */
  readonly atMost?: number;
}

export interface Size {
  readonly keys: number;
  /** Of a batch, where the comparison is not about that. */
  readonly batchRows: number;
  readonly rowsPerRound: number;
  readonly warmUp: number;
  readonly rounds: number;
}

export const fullSize: Size = { keys: 100_000, batchRows: 1_000, rowsPerRound: 10_000, warmUp: 2, rounds: 7 };

/** Proves that everything runs and comes out right. Its figures mean nothing. */
export const quickSize: Size = { keys: 100, batchRows: 50, rowsPerRound: 200, warmUp: 0, rounds: 2 };
