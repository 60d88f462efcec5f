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
  readonly start: () => Promise<Program>;
  readonly close: () => Promise<void>;
}

export interface Programmed {
  readonly stream: Stream;
  /** A slow contestant takes the first so many rows of its turn: the figures are per row. */
  readonly atMostRows?: number;
  /**
   * Between its turns, the program stands still: it stays warm, and what it has read it need not read again. Or it is ended, and
   * started anew before the next one: for a program that does not wake up well.
   */
  readonly between: 'stands still' | 'is ended';
  readonly build: (servers: BenchServers) => Promise<Built>;
}

export function programmed(
  name: string,
  { stream, atMostRows = Infinity, between, build }: Programmed,
): Contestant<Writing> {
  return {
    name,
    open: async (servers) => {
      const { source, store, write, start, close } = await build(servers);
      let program: Program | undefined;
      /** What the program that runs has to have done before its turn. */
      let doneBefore = 0;
      // numbers of its own, since it may have had fewer rows than the others
      let last = 0;

      async function wake(): Promise<Program> {
        if (program) {
          program.resume();
          return program;
        }
        doneBefore = last;
        return (program = await start());
      }

      return {
        prepare: async ({ first, last: end, perTransaction }) => {
          const rows = Math.min(end - first + 1, atMostRows);
          const awake = await wake();
          await checkpoint(source, store);
          return {
            rows,
            run: async () => {
              await write({ first: last + 1, last: last + rows, perTransaction });
              last += rows;
              await awake.untilDone(last - doneBefore);
            },
            rest: async () => {
              if (between === 'stands still') return awake.pause();
              program = undefined;
              await awake.end();
            },
          };
        },
        verify: () => stream.check(store, last),
        close: async () => {
          await program?.end();
          await close();
        },
      };
    },
  };
}
