import type { ClientBase } from 'pg';
import type { SweepTuning } from './tuning.ts';

/** Numbers of one row of emend.ledger_block, as its functions have it. */
const blockSize = 4_096n;
/** Compacted by one statement: some 300 ms. */
const blocksAtATime = 16n;

/** Of the time, at most this share goes to compacting: a backlog that drains is in more of a hurry. */
const share = 1 / 6;

type CompactTuning = Pick<SweepTuning, 'compactMs' | 'ledgerKeepRows' | 'ledgerMinAgeMs'>;

/** Compacts bit by bit, in the session of whoever leads the sweep. */
export function createCompactor(store: ClientBase, tuning: CompactTuning): { tick(): Promise<void> } {
  let after: bigint | null = 0n;
  let dueAt = 0;
  return {
    async tick() {
      const startedAt = performance.now();
      if (startedAt < dueAt) return;
      after = await compactLedger(store, after ?? 0n, tuning);
      const now = performance.now();
      dueAt = now + (after === null ? tuning.compactMs : (now - startedAt) * (1 / share - 1));
    },
  };
}

/** From which number on the ledger is compacted, and up to which (exclusive): both begin a block. */
export interface Stretch {
  readonly from: bigint;
  readonly end: bigint;
}

/**
 * Moves the older part of the ledger on to blocks, a stretch at a time. What it says stays the same, in a seventh of the room or less.
 *
 * The last rows stay where they are: merges write there, and look there. So do those that were told within the last minute,
 * wherever: a statement that waits for one to be committed has to find it under its unique key.
 *
 * @param after the number up to which an earlier call has looked; 0 to begin
 * @returns the number to go on from, or null when there is nothing more to do for now
 */
export async function compactLedger(
  store: ClientBase,
  after: bigint,
  { ledgerKeepRows, ledgerMinAgeMs }: Omit<CompactTuning, 'compactMs'>,
): Promise<bigint | null> {
  const stretch = await nextStretch(store, after, ledgerKeepRows);
  if (stretch === null) return null;
  await compactStretch(store, stretch, ledgerMinAgeMs);
  return stretch.end;
}

export async function compactStretch(
  store: Pick<ClientBase, 'query'>,
  { from, end }: Stretch,
  minAgeMs: number,
): Promise<void> {
  await store.query(compactSql, [String(from), String(end), String(minAgeMs)]);
}

async function nextStretch(store: ClientBase, after: bigint, keepRows: number): Promise<Stretch | null> {
  const { rows } = await store.query<{ first: string | null; end: string | null }>(
    `select (select min(_id) from emend.ledger_recent where _id >= $1::bigint) as first,
       (select _id from emend.ledger_recent order by _id desc offset $2::bigint limit 1) as end`,
    [String(after), String(keepRows)],
  );
  const { first, end } = rows[0]!;
  if (first === null || end === null) return null;
  const from = startOfBlock(BigInt(first));
  // whole blocks only: the one in which the last rows begin is left for later
  const last = startOfBlock(BigInt(end));
  const until = from + blocksAtATime * blockSize;
  return from < last ? { from, end: until < last ? until : last } : null;
}

function startOfBlock(id: bigint): bigint {
  return id - (id % blockSize);
}

/** In one statement, so that each snapshot has each entry once (law 6). Parameters: from, end, the least age in milliseconds. */
const compactSql = `
  with taken as (
    delete from emend.ledger_recent
    where _id >= $1::bigint and _id < $2::bigint
      and told_at < clock_timestamp() - $3::double precision * interval '1 millisecond'
    returning *
  ),
  entries as (
    select t.* from taken t
    union all
    -- later rows of a block that is there already: a backfill was promoted, a dead letter retried
    select e.*
    from emend.ledger_block b
    cross join lateral emend.entries_of(b) as e
    where b.from_id >= $1::bigint and b.from_id < $2::bigint
      and exists (select from taken t where t._id / ${blockSize} * ${blockSize} = b.from_id and t.target = b.target)
  )
  insert into emend.ledger_block (
    from_id, target, ids, rows, nonces_xor, backfills, told_at, _nonce, _recorded_at,
    _backfill, _actor, _reason, dismissed, dismissed_by, dismissed_reason
  )
  select _id / ${blockSize} * ${blockSize}, target, range_agg(int8range(_id, _id + 1)), count(*), bit_xor(_nonce),
    array_agg(distinct _backfill) filter (where _backfill is not null),
    array_agg(told_at order by _id), array_agg(_nonce order by _id), array_agg(_recorded_at order by _id),
    ${['_backfill', '_actor', '_reason', 'dismissed', 'dismissed_by', 'dismissed_reason'].map(columnOf).join(', ')}
  from entries
  group by _id / ${blockSize} * ${blockSize}, target
  on conflict (from_id, target) do update
  set ids = excluded.ids, rows = excluded.rows, nonces_xor = excluded.nonces_xor, backfills = excluded.backfills,
    told_at = excluded.told_at, _nonce = excluded._nonce, _recorded_at = excluded._recorded_at, _backfill = excluded._backfill,
    _actor = excluded._actor, _reason = excluded._reason, dismissed = excluded.dismissed,
    dismissed_by = excluded.dismissed_by, dismissed_reason = excluded.dismissed_reason`;

function columnOf(name: string): string {
  return `case when count(${name}) > 0 then array_agg(${name} order by _id) end`;
}
