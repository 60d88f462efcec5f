import { daySql, daysPerPiece, keySql, piecesPerKey, priceSql } from '../data/corrections.ts';
import type { KeyForm } from '../data/corrections.ts';
import { openEmendStore } from '../data/emend-store.ts';
import { timelineLayout } from '../data/price-timeline.ts';
import type { Contestant } from '../harness/contestant.ts';

/** Rows of new keys, ten pieces each, inserted in one statement into a target that has its guard already. */
export function bulkLoad(
  name: string,
  { form, exclusion }: { form: KeyForm; exclusion: boolean },
): Contestant<number> {
  return {
    name,
    open: async (server) => {
      const { pool, close } = await openEmendStore(
        server,
        timelineLayout({ keys: 0, form, exclusion, historyPerKey: 0 }),
      );
      let loaded = 0;
      return {
        prepare: (rows) => {
          const firstKey = loaded / piecesPerKey;
          loaded += rows;
          return {
            rows,
            run: async () => {
              await pool.query(loadSql(form), [firstKey, rows / piecesPerKey]);
            },
          };
        },
        verify: async () => {
          const { rows } = await pool.query<{ count: string; overlaps: string }>(
            `select count(*) as count, count(*) filter (where p.valid_from < p.end_before) as overlaps
             from (
               select valid_from, lag(valid_to) over (partition by product_id order by valid_from) as end_before
               from public.prices
             ) as p`,
          );
          if (rows[0]?.count === String(loaded) && rows[0].overlaps === '0') return;
          throw new Error(`${rows[0]?.count} rows, and not ${loaded}; ${rows[0]?.overlaps} overlaps`);
        },
        close,
      };
    },
  };
}

function loadSql(form: KeyForm): string {
  return `
    insert into public.prices (product_id, valid_from, valid_to, price, _version, _known_from)
    select ${keySql(form, 'k')}, ${daySql(`p * ${daysPerPiece}`)}, ${daySql(`(p + 1) * ${daysPerPiece}`)},
      ${priceSql('p')}, k * ${piecesPerKey} + p + 1, now()
    from generate_series($1::int, $1::int + $2::int - 1) k cross join generate_series(0, ${piecesPerKey} - 1) p`;
}
