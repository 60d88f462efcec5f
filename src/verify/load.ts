import type { Pool } from 'pg';
import { periodColumns, statedColumns } from '../change/target.ts';
import type { Column, Target } from '../change/target.ts';
import { ident, identList } from '../db/identifier.ts';
import { sameKey } from '../store/equality.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { openEnd, toAxis } from '../store/period-form.ts';
import { findBackfillGaps } from './backfill-gaps.ts';
import { logRows } from './log-rows.ts';
import { keyColumns, logColumnNames, valueTexts } from './workspace.ts';
import type { Examined } from './workspace.ts';

/**
 * Brings both sides into the workspace: what the log, the baseline and the ledger say, and what the store has.
 * What was told by now was committed before now, so that the log needs no snapshot.
 *
 * @returns how many corrections there are
 */
export async function load(
  source: Pool,
  examined: Examined,
  onProgress: (rows: number) => void,
): Promise<number> {
  const { client, target } = examined;
  const claim = claimSql(examined);
  const gap = gapSql(examined);
  const columns = logColumnNames(target);
  const idPlace = columns.indexOf('_id');
  let read = 0;
  for await (const rows of logRows(source, examined, columns)) {
    const arrays = columns.map((_, place) => rows.map((row) => row[place] ?? null));
    const stretch = [rows[0]![idPlace]!, rows.at(-1)![idPlace]!];
    await client.query(claim, [...stretch, examined.until, ...arrays]);
    await client.query(gap, [
      ...stretch,
      target.name,
      ...['_id', '_nonce', '_backfill'].map((name) => arrays[columns.indexOf(name)]),
    ]);
    read += rows.length;
    onProgress(read);
  }
  await loadBaseline(examined);
  await loadStored(examined, examined.keys !== null);
  await loadLost(examined);
  // temporary tables are not analyzed by themselves
  await client.query('analyze pg_temp.verify_claim, pg_temp.verify_gap');
  await findBackfillGaps(examined);
  await findNotUndone(source, examined);
  if (examined.keys === null) await client.query(notInLogSql, [target.name, examined.until]);
  await client.query('create index on pg_temp.verify_claim (bucket)');
  await client.query('analyze pg_temp.verify_claim');
  const { rows } = await client.query<{ claims: string }>(
    'select count(*) as claims from pg_temp.verify_claim',
  );
  return Number(rows[0]!.claims);
}

/** The ledger's entry `l` of a log row of the page; `$1` and `$2` are the page's first and last number. A few keys have few rows, far apart. */
function entryOf({ keys }: Examined, id: string): string {
  return keys === null
    ? `emend.ledger_between($1::bigint, $2::bigint) l on l._id = ${id}`
    : `lateral emend.ledger_at(${id}) l on $1::bigint <= $2::bigint`;
}

/**
 * Rows of the log that the ledger has, with K. Parameters: the page's first and last number, the time up to which, then the columns of the log. Only these are
 * cast: a row that was set aside may be one that no cast takes. A row that is on record as reused is another than the one that
 * the ledger has under its number.
 */
function claimSql(examined: Examined): string {
  const { target } = examined;
  const names = logColumnNames(target);
  const arrays = names.map((_, index) => `$${index + 4}::text[]`).join(', ');
  const cast = (column: Column) => `a.${ident(column.name)}::${column.baseType}`;
  const isStated = (column: Column) => statedColumns(target).includes(column);
  return `
    insert into pg_temp.verify_claim
    select ${keyColumns(target, cast)}, l._id, a._op, ${period(target, (column) => (isStated(column) ? cast(column) : null))},
      ${target.version ? cast(target.version) : 'null'}, ${valueTexts(target, 'a._op', 'a._backfill', cast)}, l.told_at, u.told_at
    from unnest(${arrays}) as a (${identList(names)})
    join ${entryOf(examined, 'a._id::bigint')} and l.dismissed is null and l.told_at <= $3::timestamptz
      and not exists (select from emend.diverged d where d._id = a._id::bigint and d._nonce = a._nonce::bigint and d.kind = 'reused')
    left join emend.undone u on u._id = l._id and u.target = l.target and u.told_at <= $3::timestamptz`;
}

/** In the axis form; an end that the log left out is open. Facts: one instant. */
function period(target: Target, cast: (column: Column) => string | null): string {
  if (target.kind === 'facts') return '0, 1';
  const [from, to] = periodColumns(target).map(cast);
  return `${from}, ${to ? `coalesce(${toAxis(target.period, to)}, ${openEnd(target.period)})` : 'null'}`;
}

/** Parameters: the page's first and last number, the target's name, then ids, nonces and backfills of log rows. */
function gapSql(examined: Examined): string {
  return `
    insert into pg_temp.verify_gap
    select case when l._id is not null then 'other_nonce' when a.backfill is null then 'not_merged' else 'in_backfill' end, a.id, a.backfill
    from unnest($4::bigint[], $5::bigint[], $6::text[]) as a (id, nonce, backfill)
    left join ${entryOf(examined, 'a.id')}
    where case
      when l._id is null then not exists (select from emend.dead_letter d where d._id = a.id)
      else (l._nonce <> a.nonce or l.target <> $3)
        and not exists (select from emend.diverged d where d._id = a.id and d._nonce = a.nonce and d.resolution is not null)
    end`;
}

const notInLogSql = `
  insert into pg_temp.verify_gap
  select 'not_in_log', l._id
  from emend.ledger l
  where l.target = $1 and l.dismissed is null and l.told_at <= $2::timestamptz
    and not exists (select from pg_temp.verify_claim c where c.id = l._id)
  union all
  select 'not_in_log', d._id
  from emend.diverged d
  where d.target = $1 and d.kind = 'lost' and d.resolution is null`;

/** Adopted rows are in no log. Columns that came later are not in the baseline. */
async function loadBaseline({ client, target, until, keys }: Examined): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select attname as name from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped`,
    [ownObject(target, 'baseline')],
  );
  if (rows.length === 0) return;
  const known = new Set(rows.map(({ name }) => name));
  const cast = (column: Column) => (known.has(column.name) ? `s.${ident(column.name)}` : null);
  const bounds = target.kind === 'facts' ? '0, 1' : periodColumns(target).map(cast).join(', ');
  const version = target.version && cast(target.version);
  await client.query(
    `insert into pg_temp.verify_claim
     select ${keyColumns(target, (column) => `s.${ident(column.name)}::${column.baseType}`)}, s._version, 'upsert', ${bounds}, ${version ?? 'null'},
       ${valueTexts(target, `'upsert'`, 'null', cast)}, t.known_since, u.told_at
     from ${from(target, ownObject(target, 'baseline'), keys !== null)}
     join emend.target t on t.name = $1 and t.known_since <= $2::timestamptz
     left join emend.undone u on u._id = s._version and u.target = $1 and u.told_at <= $2::timestamptz`,
    [target.name, until],
  );
}

/**
 * What the source lost, or has in a file that cannot be read, and the store has merged: it can only be taken for what the store has of it, which is all of its period
 * (law 4). So the rest of its key is compared all the same, with what it holds there.
 */
async function loadLost({ client, target, until }: Examined): Promise<void> {
  const key = target.key.map((_, index) => `s.k${index}`).join(', ');
  const isStart = target.kind === 'timeline' && target.mode === 'until_next';
  await client.query(
    `insert into pg_temp.verify_claim
     select distinct on (s.id) s.bucket, ${key}, s.key, s.id, s.op, min(s.f) over of_one, ${isStart ? 'null' : 'max(s.t) over of_one'},
       ${target.version ? versionOf(target, target.version) : 'null'}, s.vals, l.told_at, u.told_at, true
     from (
       select s.*, d._nonce as nonce
       from pg_temp.verify_stored s
       join emend.diverged d on d._id = s.id and d.target = $1 and d.kind = 'lost'
       union all
       select s.*, null
       from pg_temp.verify_unread u
       cross join lateral unnest(u.ids) as r (numbers)
       cross join lateral generate_series(lower(r.numbers), upper(r.numbers) - 1) as n (id)
       join pg_temp.verify_stored s on s.id = n.id
     ) as s
     join lateral emend.ledger_at(s.id) l on l._nonce = coalesce(s.nonce, l._nonce) and l.target = $1 and l.dismissed is null
     left join emend.undone u on u._id = l._id and u.target = l.target and u.told_at <= $2::timestamptz
     where l.told_at <= $2::timestamptz
     window of_one as (partition by s.id)
     order by s.id`,
    [target.name, until],
  );
}

/** The version column is among the values, of a retraction too. */
function versionOf(target: Target, version: Column): string {
  return `s.vals[${target.values.findIndex(({ name }) => name === version.name) + 1}]::${version.baseType}`;
}

/**
 * What the store has, of all keys or of those in `verify_asked`. All tables in one statement, so as of one moment. What was told
 * later is left out, and what stood then stands, whatever became of it since.
 */
export async function loadStored({ client, target, until }: Examined, asked: boolean): Promise<void> {
  const own = (suffix: 'history' | 'tombstone' | 'shadow') => ownObject(target, suffix);
  const none = 'null::timestamptz';
  const parts = [
    part(target, targetTable(target), `'upsert'`, `'infinity'::timestamptz`, 'null', asked),
    part(target, own('history'), `'upsert'`, 's._known_to', 'null', asked),
    part(target, own('tombstone'), 's._op', 's._known_to', 'null', asked),
    part(target, own('shadow'), 's._op', none, `'shadow'`, asked),
  ];
  await client.query(
    `insert into pg_temp.verify_stored
     select p.bucket, ${target.key.map((_, index) => `p.k${index}`).join(', ')}, p.key,
       coalesce(p.place, case when p.op <> 'upsert' then 'tombstone' when p.still then 'target' else 'history' end),
       p.id, p.op, p.f, p.t, p.vals, p.known_from, case when p.still then 'infinity' else p.known_to end, p.in_table, p.at_row
     from (
       select *, known_to > $1::timestamptz or known_to = 'infinity' as still
       from (${parts.join('\n union all \n')}) as told (bucket, ${target.key.map((_, index) => `k${index}`).join(', ')}, key, id, op, f, t, vals, known_from, known_to, place, in_table, at_row)
       where known_from <= $1::timestamptz
     ) as p`,
    [until],
  );
  await client.query('create index if not exists verify_stored_bucket on pg_temp.verify_stored (bucket)');
  await client.query('analyze pg_temp.verify_stored');
}

function part(
  target: Target,
  table: string,
  op: string,
  knownTo: string,
  place: string,
  asked: boolean,
): string {
  const isTombstone = table === ownObject(target, 'tombstone');
  const column = ({ name, baseType }: Column) => `s.${ident(name)}::${baseType}`;
  const bounds = periodColumns(target).map((each) => `s.${ident(each.name)}`);
  if (target.kind === 'facts') bounds.push('0', '1');
  else if (table === targetTable(target)) bounds[1] = toAxis(target.period, bounds[1]!);
  const cast = (each: Column) => (isTombstone && each !== target.version ? null : column(each));
  return `
    select ${keyColumns(target, column)}, s._version, ${op}, ${bounds.join(', ')}, ${valueTexts(target, op, 's._backfill', cast)},
      s._known_from, ${knownTo}, ${place}::text, s.tableoid, s.ctid
    from ${from(target, table, asked)}`;
}

function from(target: Target, table: string, asked: boolean): string {
  return asked ? `pg_temp.verify_asked q join ${table} s on ${sameKey(target.key, 's', 'q')}` : `${table} s`;
}

/** The log asked for it, and the store has not done it, or has lost it. */
async function findNotUndone(source: Pool, { client, target }: Examined): Promise<void> {
  const { rows } = await source.query<{ id: string }>(
    `select details ->> 'undo' as id from corrections._request where request = 'undo' and details ->> 'target' = $1`,
    [target.name],
  );
  await client.query(
    `insert into pg_temp.verify_gap
     select 'not_undone', c.id
     from unnest($1::bigint[]) as asked (id)
     join pg_temp.verify_claim c on c.id = asked.id
     where not exists (select from emend.undone u where u._id = c.id and u.target = $2)`,
    [rows.map(({ id }) => id), target.name],
  );
}

/** Drops from the gaps what was done since, and says how many may still be on their way. */
export async function forgetClosedGaps({ client, target }: Examined): Promise<number> {
  await client.query(
    `delete from pg_temp.verify_gap g
     where case
       when g.kind in ('not_merged', 'not_held') then
         exists (select from emend.ledger_at(g.id))
         or exists (select from emend.dead_letter d where d._id = g.id)
       when g.kind = 'not_undone' then exists (select from emend.undone u where u._id = g.id and u.target = $1)
       else false
     end`,
    [target.name],
  );
  const { rows } = await client.query<{ open: string }>(
    `select count(*) as open from pg_temp.verify_gap where kind in ('not_merged', 'not_undone')`,
  );
  return Number(rows[0]!.open);
}
