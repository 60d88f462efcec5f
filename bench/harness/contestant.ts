import type { BenchServer } from './server.ts';

/** One way of doing the work of a comparison. */
export interface Contestant<Work> {
  readonly name: string;
  /** Its own database, with the data that all contestants begin with. */
  open(server: BenchServer): Promise<OpenContestant<Work>>;
}

export interface OpenContestant<Work> {
  /** Brings the work into the form that the contestant takes, and returns what is timed, with the number of rows in it. */
  prepare(work: Work): Timed;
  /** @throws when what stands at the end is not what all the work says: then no figure of the contestant counts */
  verify(): Promise<void>;
  close(): Promise<void>;
}

export interface Timed {
  readonly rows: number;
  run(): Promise<void>;
  /** What has to be over before another contestant's turn. Not timed. */
  rest?(): Promise<void>;
}
