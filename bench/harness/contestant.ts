import type { BenchServers } from './servers.ts';

/** One way of doing the work of a comparison. */
export interface Contestant<Work> {
  readonly name: string;
  /** Its own databases, with the data that all contestants begin with. */
  open(servers: BenchServers): Promise<OpenContestant<Work>>;
}

export interface OpenContestant<Work> {
  /** Brings the work into the form that the contestant takes, and returns what is timed, with the number of rows in it. */
  prepare(work: Work): Timed | Promise<Timed>;
  /** @throws when what stands at the end is not what all the work says: then no figure of the contestant counts */
  verify(): Promise<void>;
  close(): Promise<void>;
}

export interface Timed {
  readonly rows: number;
  /** May return what it took, in microseconds, where there is a better clock than the one around it. */
  run(): Promise<number | void>;
  /** What has to be over before another contestant's turn. Not timed. */
  rest?(): Promise<void>;
  /** Asked after the run: more figures of the round, by their name, in microseconds a row. */
  more?(): Readonly<Record<string, number>>;
}
