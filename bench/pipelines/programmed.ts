import type { Pool } from 'pg';
import type { Stream, Writing } from '../data/stream.ts';
import type { Contestant } from '../harness/contestant.ts';
import type { BenchServers } from '../harness/servers.ts';
import type { Program } from './program.ts';
import { checkpoint } from './writer.ts';
import type { Write } from './writer.ts';

/** What a contestant is made of whose work a program of its own does. */
export interface Built {
  readonly source: Pool;
  readonly store: Pool;
  readonly write: Write;
  readonly program: Program;
  readonly close: () => Promise<void>;
}

export interface Programmed {
  readonly stream: Stream;
  /** A slow contestant takes the first so many rows of its turn: the figures are per row. */
  readonly atMostRows?: number;
  readonly build: (servers: BenchServers) => Promise<Built>;
}

export function programmed(
  name: string,
  { stream, atMostRows = Infinity, build }: Programmed,
): Contestant<Writing> {
  return {
    name,
    open: async (servers) => {
      const { source, store, write, program, close } = await build(servers);
      program.pause();
      // numbers of its own, since it may have had fewer rows than the others
      let last = 0;
      return {
        prepare: async ({ first, last: end, perTransaction }) => {
          const rows = Math.min(end - first + 1, atMostRows);
          await checkpoint(source, store);
          program.resume();
          return {
            rows,
            run: async () => {
              await write({ first: last + 1, last: last + rows, perTransaction });
              last += rows;
              await program.untilDone(last);
            },
            rest: async () => program.pause(),
          };
        },
        verify: () => stream.check(store, last),
        close: async () => {
          program.resume();
          await program.end();
          await close();
        },
      };
    },
  };
}
