import type { ClientBase } from 'pg';
import { identList, literal } from '../db/identifier.ts';
import { readAppendColumns } from './append-columns.ts';
import { logTable } from './log-columns.ts';

/** A row of a log under its old number, and the number under which it was written again. */
export interface WrittenAgain {
  readonly id: string;
  readonly nonce: string;
  readonly newId: string;
}

/**
 * Makes the source give out numbers above this one only. It draws those in between, since no number that another session draws
 * at the same time may be set back.
 */
export async function drawNumbersUpTo(source: ClientBase, greatest: string): Promise<void> {
  await source.query(
    `select count(nextval('corrections._id'))
     from pg_sequences s
     cross join lateral generate_series(coalesce(s.last_value, 0) + 1, $1::bigint) as missing
     where s.schemaname = 'corrections' and s.sequencename = '_id'`,
    [greatest],
  );
}

/**
 * Writes live rows of a log again, as new corrections under new numbers, in their order, in the transaction of `source`. The
 * log keeps in `_request` what was written again, so that a row is never written a third time, however often it is asked for.
 *
 * @returns the rows that the log has, whether they were written again now or before
 */
export async function writeAgain(
  source: ClientBase,
  target: string,
  rows: readonly { readonly id: string; readonly nonce: string }[],
  reason: string,
): Promise<WrittenAgain[]> {
  const table = logTable({ name: target });
  const stated = (await readAppendColumns(source, target)).filter(({ name }) => !name.startsWith('_'));
  const columns = identList(stated.map(({ name }) => name));
  const before = `
    select r.details ->> '_id' as id, r.details ->> '_nonce' as nonce, r.details ->> 'new_id' as new_id
    from corrections._request r
    where r.request = 'adopt' and r.details ->> 'target' = ${literal(target)}`;
  await source.query(
    `with wanted as (
       select id, nonce from unnest($1::text[], $2::text[]) as a (id, nonce)
       except
       select id, nonce from (${before}) as before
     ),
     found as materialized (
       select l.*
       from wanted w
       join ${table} l on l._id = w.id::bigint and l._nonce = w.nonce::bigint
       where l._backfill is null
       order by l._id
     ),
     numbered as materialized (select nextval('corrections._id') as new_id, f.* from found f),
     written as (
       insert into ${table} (_id, ${columns}, _op, _reason)
       select new_id, ${columns}, _op,
         'written again, since number ' || _id || ' was given out twice: ' || $3 || coalesce('; first written because: ' || _reason, '')
       from numbered
     )
     insert into corrections._request (request, details, _reason)
     select 'adopt', jsonb_build_object('target', ${literal(target)}, '_id', _id::text, '_nonce', _nonce::text, 'new_id', new_id::text), $3
     from numbered`,
    [rows.map(({ id }) => id), rows.map(({ nonce }) => nonce), reason],
  );
  const { rows: written } = await source.query<{ id: string; nonce: string; new_id: string }>(
    `select b.id, b.nonce, b.new_id
     from (${before}) as b
     join unnest($1::text[], $2::text[]) as a (id, nonce) on a.id = b.id and a.nonce = b.nonce`,
    [rows.map(({ id }) => id), rows.map(({ nonce }) => nonce)],
  );
  return written.map(({ id, nonce, new_id: newId }) => ({ id, nonce, newId }));
}
