import { paymentStream } from '../data/stream.ts';
import type { Stream, Writing } from '../data/stream.ts';
import type { Comparison } from '../harness/comparison.ts';
import type { Contestant } from '../harness/contestant.ts';
import { measure } from '../harness/measure.ts';
import { openWrittenInstall } from '../pipelines/emend-install.ts';
import { untilMerged } from '../pipelines/emend.ts';

const young = 'sweep, a young log';
const old = 'sweep, a log of ten times as many rows';

/** A sweep looks at what may be missing, and not at all that ever was: its cost does not grow with the log. */
export const logAge: Comparison = {
  name: 'log-age',
  title: 'A sweep after 1,000 new rows: over a log of 50,000 merged rows, and over one of 500,000',
  measure: (servers, { quick }) => {
    const rows = quick ? 100 : 50_000;
    const stream = paymentStream('inserts', 0);
    return measure(servers, {
      warmUp: quick ? 0 : 1,
      rounds: quick ? 1 : 5,
      contestants: [
        sweeping(young, stream, { rowsBefore: rows, sweeps: quick ? 1 : 10 }),
        sweeping(old, stream, { rowsBefore: rows * 10, sweeps: quick ? 1 : 10 }),
      ],
      work: () => (quick ? 10 : 1_000),
    });
  },
  ratios: [{ of: old, to: young, atMost: 1.25 }],
};

/** What is timed is what `emend sweep` says it took: its own start is not in it. */
function sweeping(
  name: string,
  stream: Stream,
  { rowsBefore, sweeps }: { readonly rowsBefore: number; readonly sweeps: number },
): Contestant<number> {
  return {
    name,
    open: async (servers) => {
      const install = await openWrittenInstall(servers, stream);
      const { pool } = install.store;
      let last = 0;
      const bring = async (rows: number): Promise<void> => {
        const writing: Writing = { first: last + 1, last: last + rows, perTransaction: 1_000 };
        last += rows;
        const running = await install.startBoth();
        await install.write(writing);
        await untilMerged(pool, last);
        await running.stop();
      };
      await bring(rowsBefore);
      return {
        prepare: async (rows) => {
          await bring(rows);
          return {
            rows: sweeps,
            run: async () => {
              let tookMs = 0;
              for (let sweep = 0; sweep < sweeps; sweep += 1) {
                const { stdout } = await install.cli.expect(['sweep', '--json']);
                tookMs += (JSON.parse(stdout) as { tookMs: number }).tookMs;
              }
              return tookMs * 1_000;
            },
          };
        },
        verify: () => stream.check(pool, last),
        close: () => install.close(),
      };
    },
  };
}
