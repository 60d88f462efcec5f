import { mergeSettings } from '../../src/merge/merge.ts';
import { createPool } from '../../src/db/pool.ts';
import type { Stream, Writing } from '../data/stream.ts';
import type { Contestant } from '../harness/contestant.ts';
import { checkpoint, createWriter, insertInto, openPlace } from './writer.ts';

export interface OverLog {
  /** Takes the log rows whose `id` is from $1 to $2. */
  readonly sql: string;
  /** Left out: all that was written, in one statement. */
  readonly batchRows?: number;
  /** More columns of the target than the stream has. */
  readonly columnsDdl?: string;
}

/** The limit: the log lies in the store already, and one hand-written statement takes it over. No pipeline, ledger or history. */
export function statementOverLog(name: string, stream: Stream, options: OverLog): Contestant<Writing> {
  return {
    name,
    open: async (servers) => {
      const { url, pool, close } = await openPlace(servers);
      const merging = createPool({ url, applicationName: 'bench', max: 1, settings: mergeSettings });
      await pool.query(stream.ddl);
      await pool.query(`create table public.log as select * from public.${stream.target} with no data`);
      await pool.query(
        'alter table public.log add column id bigint generated always as identity primary key',
      );
      if (options.columnsDdl !== undefined)
        await pool.query(`alter table public.${stream.target} ${options.columnsDdl}`);
      if (stream.base !== undefined) await pool.query(stream.base);
      await pool.query('vacuum (analyze)');
      const write = await createWriter(pool, stream, insertInto('public.log', stream));
      let last = 0;
      return {
        prepare: async (writing) => {
          last = writing.last;
          await checkpoint(pool);
          const rows = writing.last - writing.first + 1;
          const step = options.batchRows ?? rows;
          return {
            rows,
            run: async () => {
              await write(writing);
              for (let head = writing.first; head <= writing.last; head += step)
                await merging.query(options.sql, [head, Math.min(head + step - 1, writing.last)]);
            },
          };
        },
        verify: () => stream.check(pool, last),
        close: async () => {
          await merging.end();
          await close();
        },
      };
    },
  };
}

/** The number is the version. `distinct on`: a statement cannot touch one row twice. */
export const upsertPayments = `
  insert into public.payments as p (payment_id, paid_on, amount)
  select distinct on (l.payment_id) l.payment_id, l.paid_on, l.amount
  from public.log l
  where l.id between $1 and $2
  order by l.payment_id, l.id desc
  on conflict (payment_id) do update set paid_on = excluded.paid_on, amount = excluded.amount`;
