import type { Measured } from './measure.ts';
import type { BenchServers } from './servers.ts';

/** Contestants that do the same work, and the ratios between them that are asked about. */
export interface Comparison {
  /** For the command line. */
  readonly name: string;
  readonly title: string;
  measure(servers: BenchServers, size: Size): Promise<Measured[]>;
  readonly ratios: readonly Ratio[];
}

/** How much dearer a row is for one contestant than for the other, in the same round. */
export interface Ratio {
  readonly of: string;
  /** Left out: the figure itself is what has to keep the bound. */
  readonly to?: string;
  /** What has to hold. Left out: told, and no more. */
  readonly atMost?: number;
  /** A contestant that this machine may not have: then the ratio is left out. */
  readonly mayLack?: boolean;
}

export interface Size {
  readonly quick: boolean;
  readonly keys: number;
  /** Of a batch, where the comparison is not about that. */
  readonly batchRows: number;
  readonly rowsPerRound: number;
  readonly warmUp: number;
  readonly rounds: number;
  /** Superseded rows that the longest history has. */
  readonly historyRows: number;
}

export const fullSize: Size = {
  quick: false,
  keys: 100_000,
  batchRows: 1_000,
  rowsPerRound: 10_000,
  warmUp: 2,
  rounds: 7,
  // a hundred million take a quarter of an hour to load: `--history=100000000`
  historyRows: 20_000_000,
};

/** Proves that everything runs and comes out right. Its figures mean nothing. */
export const quickSize: Size = {
  quick: true,
  keys: 100,
  batchRows: 50,
  rowsPerRound: 200,
  warmUp: 0,
  rounds: 2,
  historyRows: 20_000,
};
