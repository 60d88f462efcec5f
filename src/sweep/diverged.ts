/**
 * Compares the numbers of log and ledger, and puts on record what they do not have alike.
 *
 * A source that was restored to an older state, or a standby that was promoted with a lag, has lost rows that are merged, and
 * gives their numbers out again. By its number alone such a row counts as merged, and is lost in silence; its nonce tells.
 *
 * Blocks of numbers are compared by count and by the xor of their nonces, which are random, with those of the rows that were moved
 * to files on the side of the log; only blocks that differ are read row by row, so a healthy log of any length costs one pass over both sides, and memory for a block.
 */
import type { ClientBase, Pool } from 'pg';
import { qualified } from '../db/identifier.ts';
import { archiveBlockSize } from '../log/archive-records.ts';
import { forgetDiverged, readOpen, recordDiverged } from '../store/diverged.ts';
import type { DivergedRow, NamedRow } from '../store/diverged.ts';

export interface Sides {
  readonly source: Pool | ClientBase;
  readonly store: Pool | ClientBase;
  readonly targets: readonly string[];
}

/** Numbers of one block: few enough to be read at once where it differs. */
const blockSize = archiveBlockSize;
/** Blocks whose digests are made by one statement: a second or two, far below the limit of a statement. */
const blocksAtATime = 8n;
/** Numbers at the end of the ledger that tell whether its history is the log's. */
const tailRows = 1_000;
const pageRows = 10_000;

/** @throws when the signal is aborted, and what was found so far is on record. */
export async function compareNumbers(sides: Sides, signal: AbortSignal): Promise<void> {
  await forgetMended(sides);
  let from: bigint | null = 0n;
  while ((from = await firstNumber(sides, from)) !== null) {
    signal.throwIfAborted();
    const start: bigint = from - (from % blockSize);
    const end: bigint = start + blockSize * blocksAtATime;
    // the ledger first: what it has then, is in the log from then on
    const merged = await ledgerDigests(sides, start, end);
    const logged = await logDigests(sides, start, end);
    for (let block = start; block < end; block += blockSize) {
      const place = String(block / blockSize);
      if (merged.get(place) !== logged.get(place)) await compareBlock(sides, block, block + blockSize);
    }
    from = end;
  }
}

/**
 * Whether the log has the rows that the ledger has under its greatest numbers. What a restored source lost was written last,
 * and has the same system identifier and timeline.
 */
export async function hasSameTail({ source, store, targets }: Sides): Promise<boolean> {
  const { rows } = await store.query<NamedRow>(
    `select l.target, l._id as id, l._nonce as nonce
     from (
       select g.target, g._id, g._nonce
       from emend.ledger_recent g
       where not exists (select from emend.diverged d where d._id = g._id and d._nonce = g._nonce offset 0)
       order by g._id desc
       limit ${tailRows}
     ) as l
     where l.target = any($1::text[])`,
    [targets],
  );
  return (await absentFromLog(source, rows)).length === 0;
}

/** Of these rows, those that are neither in their logs nor in a file: one statement sees a row that is moved in one of the two. */
async function absentFromLog<R extends NamedRow>(
  source: Pool | ClientBase,
  rows: readonly R[],
): Promise<R[]> {
  const absent: R[] = [];
  for (const target of new Set(rows.map((row) => row.target))) {
    const ofTarget = rows.filter((row) => row.target === target);
    const found = await source.query<{ place: string }>(
      `select a.place
       from unnest($1::bigint[], $2::bigint[]) with ordinality as a (_id, _nonce, place)
       where not exists (select from ${logOf(target)} l where l._id = a._id and l._nonce = a._nonce offset 0)
         and a._id not in (
           select corrections._archived($3, range_agg(int8range(i._id, i._id, '[]'))) from unnest($1::bigint[]) as i (_id)
         )
       order by a.place`,
      [ofTarget.map(({ id }) => id), ofTarget.map(({ nonce }) => nonce), target],
    );
    absent.push(...found.rows.map(({ place }) => ofTarget[Number(place) - 1]!));
  }
  return absent;
}

/** After a return to a server that has the lost rows: what is alike again, and is not decided, is no divergence. */
async function forgetMended({ source, store, targets }: Sides): Promise<void> {
  let last: DivergedRow | null = null;
  for (;;) {
    const open: DivergedRow[] = await readOpen(store, targets, last, pageRows);
    if (open.length === 0) return;
    last = open.at(-1)!;
    const absent = new Set(await absentFromLog(source, open));
    await forgetDiverged(
      store,
      open.filter((row) => absent.has(row) === (row.kind === 'reused')),
    );
  }
}

/** The least number from here on, on either side. */
async function firstNumber({ source, store, targets }: Sides, from: bigint): Promise<bigint | null> {
  // a block begins at its first number, or before it; no block of digests is passed over for that
  const ledger = `
    select least(
      (select min(_id) from emend.ledger_recent where _id >= $1::bigint),
      (select min(from_id) from emend.ledger_block where from_id >= $1::bigint)
    ) as id`;
  const logs = targets.map((target) => `select min(_id) as id from ${logOf(target)} where _id >= $1::bigint`);
  const [merged, logged] = await Promise.all([
    store.query<{ id: string | null }>(ledger, [String(from)]),
    source.query<{ id: string | null }>(logs.join(' union all '), [String(from)]),
  ]);
  const ids = [...merged.rows, ...logged.rows].flatMap(({ id }) => (id === null ? [] : [BigInt(id)]));
  return ids.length === 0 ? null : ids.reduce((least, id) => (id < least ? id : least));
}

async function ledgerDigests({ store, targets }: Sides, start: bigint, end: bigint) {
  const { rows } = await store.query<Digest>(
    digestSql(
      `select from_id, rows, nonces_xor from emend.ledger_digest
       where from_id >= $1::bigint and from_id < $2::bigint and target = any($3::text[])`,
    ),
    [String(start), String(end), targets],
  );
  return byBlock(rows);
}

async function logDigests({ source, targets }: Sides, start: bigint, end: bigint) {
  const logs = targets.map(
    (target) =>
      `select _id as from_id, 1 as rows, _nonce as nonces_xor
       from ${logOf(target)} where _id >= $1::bigint and _id < $2::bigint`,
  );
  const archived = `
    select b.block * ${blockSize}, b.rows, b.nonces
    from corrections._archive_block b
    join corrections._archive a on a.number = b.archive and a.restored_at is null and a.target = any($3::text[])
    where b.block >= $1::bigint / ${blockSize} and b.block < $2::bigint / ${blockSize}`;
  const { rows } = await source.query<Digest>(digestSql([...logs, archived].join(' union all ')), [
    String(start),
    String(end),
    targets,
  ]);
  return byBlock(rows);
}

interface Digest {
  readonly block: string;
  readonly digest: string;
}

function digestSql(rows: string): string {
  return `
    select from_id / ${blockSize} as block, sum(rows) || ' ' || bit_xor(nonces_xor) as digest
    from (${rows}) as numbered
    group by from_id / ${blockSize}`;
}

function byBlock(rows: readonly Digest[]): Map<string, string> {
  return new Map(rows.map(({ block, digest }) => [block, digest]));
}

async function compareBlock({ source, store, targets }: Sides, start: bigint, end: bigint): Promise<void> {
  const range = [String(start), String(end)];
  const logs = targets.map(
    (target, index) =>
      `select $${index + 3}::text as target, _id as id, _nonce as nonce, _backfill is null as live
       from ${logOf(target)} where _id >= $1::bigint and _id < $2::bigint`,
  );
  const logged = await source.query<NamedRow & { live: string }>(logs.join(' union all '), [
    ...range,
    ...targets,
  ]);
  const found = await store.query<DivergedRow>(differingSql, [
    ...range,
    targets,
    logged.rows.map(({ id }) => id),
    logged.rows.map(({ nonce }) => nonce),
    logged.rows.map(({ target }) => target),
    logged.rows.map(({ live }) => live),
  ]);
  const isKnown = ({ target }: DivergedRow): boolean => targets.includes(target);
  const lost = found.rows.filter(({ kind }) => kind === 'lost');
  await recordDiverged(store, [
    ...found.rows.filter(({ kind }) => kind === 'reused'),
    // asked again: a row that came to the log and was merged since it was read is not lost
    ...(await absentFromLog(source, lost.filter(isKnown))),
    ...lost.filter((row) => !isKnown(row)),
  ]);
}

/**
 * Parameters: the first number, and the one after the last; the targets; number, nonce and target of each log row, and whether
 * it is live: a row of a backfill waits for its promotion. Sets are subtracted, and numbers looked up one by one: a join could
 * be quadratic, since nothing is known of the parameters when it is planned. The row that had a number first is lost, also
 * where it is of a target that is not compared.
 */
const differingSql = `
  with logged as materialized (
    select * from unnest($4::bigint[], $5::bigint[], $6::text[], $7::boolean[]) as l (_id, _nonce, target, live)
  ),
  twice as materialized (
    select l._id, l._nonce, l.target, g._nonce as first_nonce, g.target as first_target
    from logged l
    cross join lateral (select m._nonce, m.target from emend.ledger_at(l._id) m offset 0) as g
    where l.live and g._nonce <> l._nonce
  ),
  gone as (
    select g._id, g._nonce, g.target
    from emend.ledger_between($1::bigint, $2::bigint - 1) g
    where g.target = any($3::text[])
    except
    select _id, _nonce, target from logged
  )
  select 'reused' as kind, _id as id, _nonce as nonce, target from twice
  union all
  select 'lost', _id, _nonce, target from gone
  union all
  select 'lost', _id, first_nonce, first_target from twice where first_target <> all($3::text[])`;

function logOf(target: string): string {
  return qualified('corrections', target);
}
