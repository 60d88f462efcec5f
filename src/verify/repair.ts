import type { Pool } from 'pg';
import type { Target } from '../change/target.ts';
import { identList } from '../db/identifier.ts';
import { withTransaction } from '../db/transaction.ts';
import { logTable } from '../log/log-columns.ts';
import { takeKeys } from '../merge/take-keys.ts';
import { compare } from './compare.ts';
import { load } from './load.ts';
import { openWorkspace } from './workspace.ts';
import type { Examined, KeyTexts } from './workspace.ts';
import { writeDifferences } from './write-differences.ts';

/**
 * Makes what the store has of these keys equal to what log and ledger say, in one transaction under their bucket locks:
 * target, history, tombstones and shadows, each row with the times of belief that it had. No time of belief is new, for
 * nothing new is told: answers about the past become again what they were before the damage.
 *
 * Left alone: keys of corrections that the ledger has and the log (or the baseline) has not, or has otherwise: the store's are
 * the only ones then; and keys of which something was asked to be taken back and is not.
 *
 * @returns how many rows were put back or taken out
 */
export async function repairKeys(
  source: Pool,
  store: Pool,
  target: Target,
  keys: KeyTexts,
  archives: ReadonlyMap<string, string> = new Map(),
): Promise<number> {
  return withKeys(store, target, keys, async (ofKeys) => {
    const examined = { ...ofKeys, archives };
    let claims = await prepare(source, examined);
    if ((await restoreLedger(source, examined)) > 0) claims = await prepare(source, examined);
    await compare(examined, { claims });
    await spareOrphans(source, examined);
    const { takenOut, putIn } = await writeDifferences(examined);
    return takenOut + putIn;
  });
}

/** Gives the ledger back what it lost of these keys, and changes nothing else. Returns how many rows. */
export async function repairLedger(
  source: Pool,
  store: Pool,
  target: Target,
  keys: KeyTexts,
  archives: ReadonlyMap<string, string>,
): Promise<number> {
  return withKeys(store, target, keys, async (ofKeys) => {
    const examined = { ...ofKeys, archives };
    await prepare(source, examined);
    return restoreLedger(source, examined);
  });
}

/** `body` in one transaction under the bucket locks of the keys: no merge of them is under way, so nothing is too recent. */
async function withKeys<T>(
  store: Pool,
  target: Target,
  keys: KeyTexts,
  body: (examined: Examined) => Promise<T>,
): Promise<T> {
  return withTransaction(store, async (client) => {
    const { rows } = await client.query<{ number: string }>(
      `select number from emend.target where name = $1`,
      [target.name],
    );
    const columns = target.key.map(({ name }) => name);
    const number = Number(rows[0]!.number);
    await takeKeys(client, [{ target, number, rows: { target: target.name, columns, values: keys } }]);
    return body({ client, target, until: 'infinity', keys });
  });
}

async function prepare(source: Pool, examined: Examined): Promise<number> {
  await openWorkspace(examined);
  return load(source, examined, () => {});
}

/**
 * A log row that the ledger lost, though the store has its effect, would be merged a second time (law 6). When it was told
 * is known: whatever it became then, a piece or a shadow, bears that time.
 */
async function restoreLedger(source: Pool, { client, target }: Examined): Promise<number> {
  const { rows } = await client.query<{ id: string; told_at: string }>(
    `select g.id, min(s.known_from) as told_at
     from pg_temp.verify_gap g
     join pg_temp.verify_stored s on s.id = g.id
     where g.kind = 'not_merged'
     group by g.id`,
  );
  if (rows.length === 0) return 0;
  const own = ['_id', '_nonce', '_recorded_at', '_backfill', '_actor', '_reason'];
  const { rows: logged } = await source.query<Record<string, string | null>>(
    `select ${identList(own)} from ${logTable(target)} where _id = any($1::bigint[])`,
    [rows.map(({ id }) => id)],
  );
  const toldAt = new Map(rows.map(({ id, told_at }) => [id, told_at]));
  await client.query(
    `insert into emend.ledger_recent (${identList(own)}, target, told_at)
     select a._id, a._nonce, a._recorded_at, a._backfill, a._actor, a._reason, $1, a.told_at
     from unnest($2::bigint[], $3::bigint[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::timestamptz[])
       as a (${identList(own)}, told_at)`,
    [
      target.name,
      ...own.map((name) => logged.map((row) => row[name])),
      logged.map((row) => toldAt.get(row['_id']!)),
    ],
  );
  return logged.length;
}

/**
 * Takes out of the differences the keys that are left alone; also those of a row that the ledger lost and could not be given back,
 * of which the store has the effect: it would be taken out, and not come again.
 */
export async function spareOrphans(source: Pool, { client, target }: Examined): Promise<void> {
  const { rows } = await client.query<{ id: string }>(
    `select distinct s.id
     from pg_temp.verify_stored s
     where not exists (select from pg_temp.verify_claim c where c.id = s.id)
       and (s.id < 0 or exists (select from emend.ledger_at(s.id) l where l.target = $1 and l.dismissed is null))`,
    [target.name],
  );
  const ids = rows.map(({ id }) => id);
  const logged = await source.query<{ id: string }>(
    `select _id as id from ${logTable(target)} where _id = any($1::bigint[])`,
    [ids],
  );
  const ofOthers = new Set(logged.rows.map(({ id }) => id));
  await client.query(
    `with spared as (
       select unnest($1::bigint[]) as id
       union
       select g.id from pg_temp.verify_gap g where g.kind in ('other_nonce', 'not_undone', 'not_promoted', 'not_merged')
       union
       select c.id from pg_temp.verify_claim c where c.of_store
     )
     delete from pg_temp.verify_difference d
     where d.key in (
       select s.key from pg_temp.verify_stored s join spared on spared.id = s.id
       union
       select c.key from pg_temp.verify_claim c join spared on spared.id = c.id
     )`,
    [ids.filter((id) => !ofOthers.has(id))],
  );
}
