import { days, daysPerPiece, keyText, piecesPerKey } from './corrections.ts';
import type { KeyForm } from './corrections.ts';
import type { Expected } from './expected.ts';

/**
 * A timeline as a version for each day of each key, painted over in the order of the corrections.
 *
 * @param standing SQL of the rows that stand, where they are not those of the table
 */
export function paintTimeline(keys: number, form: KeyForm, standing = 'public.prices'): Expected {
  const versions = Int32Array.from(
    { length: keys * days },
    (_, place) => Math.floor(place / days) * piecesPerKey + Math.floor((place % days) / daysPerPiece) + 1,
  );

  const piecesOf = (key: number): string => {
    const pieces: string[] = [];
    for (let start = 0, day = 1; day <= days; day += 1) {
      const version = versions[key * days + start];
      if (day < days && versions[key * days + day] === version) continue;
      pieces.push(`${start}-${day}:${version}`);
      start = day;
    }
    return pieces.join(' ');
  };

  return {
    add: (corrections) => {
      for (const { id, key, from, to } of corrections) versions.fill(id, key * days + from, key * days + to);
    },
    check: async (pool) => {
      const { rows } = await pool.query<{ key: string; pieces: string }>(
        `select p.product_id::text as key,
           string_agg(
             (p.valid_from - date '2026-01-01') || '-' || (p.valid_to - date '2026-01-01') || ':'
               || case when p.price = p._version % 10000 then p._version::text else 'value of another version' end,
             ' ' order by p.valid_from) as pieces
         from ${standing} p
         group by p.product_id`,
      );
      const found = new Map(rows.map(({ key, pieces }) => [key, pieces]));
      if (found.size !== keys) throw new Error(`${found.size} keys stand, and not ${keys}`);
      for (let key = 0; key < keys; key += 1) {
        const name = keyText(form, key);
        if (found.get(name) === piecesOf(key)) continue;
        throw new Error(`${name} has ${found.get(name)}, and not ${piecesOf(key)}`);
      }
    },
  };
}
