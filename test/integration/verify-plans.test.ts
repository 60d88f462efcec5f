import { expect, it } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { createInstall } from '../support/install.ts';

const backfills = 400;
const rows = 40_000;

it('a verify of many reverted backfills does not look up each correction for each of them', async () => {
  const { source, store, config } = await createInstall('verify plans', {
    ddl: `create table public.orders (id integer primary key, amount integer not null)`,
    targets: { orders: facts('public.orders', { key: ['id'] }) },
  });
  await source.query(
    `select corrections.open_backfill('b-' || i, '{orders}', 'a test', 'v1') from generate_series(1, ${backfills}) i`,
  );
  await source.query(
    `insert into corrections.orders (id, amount, _backfill) select i, i, 'b-' || 1 + i % ${backfills} from generate_series(1, ${rows}) i`,
  );
  const { rows: logged } = await source.query<{ id: string; nonce: string; name: string }>(
    `select _id as id, _nonce as nonce, _backfill as name from corrections.orders`,
  );
  // as their promotes and reverts leave it
  await store.query(
    `insert into emend.backfill (name, targets, boundary, origin, checks, state, opened_at, told_at, reverted_at)
     select 'b-' || i, '{orders}', '{}', '{}', '{}', 'reverted', now(), timestamptz '2026-01-01', timestamptz '2026-01-02'
     from generate_series(1, ${backfills}) i`,
  );
  await store.query(
    `with entry as (
       insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at, _backfill)
       select e.id, 'orders', timestamptz '2026-01-01', e.nonce, now(), e.name
       from unnest($1::bigint[], $2::bigint[], $3::text[]) as e (id, nonce, name)
       returning _id, _backfill
     ),
     undone as (
       insert into emend.undone (_id, target, told_at, actor, reason)
       select _id, 'orders', timestamptz '2026-01-02', 'tester', 'reverted' from entry
     )
     insert into emend.orders_history (id, amount, _version, _known_from, _known_to, _backfill)
     select row_number() over (order by _id), row_number() over (order by _id), _id, timestamptz '2026-01-01', timestamptz '2026-01-02', _backfill
     from entry`,
    [logged.map(({ id }) => id), logged.map(({ nonce }) => nonce), logged.map(({ name }) => name)],
  );
  await store.query(`analyze`);
  const start = performance.now();
  const [verification] = await verify(config, { target: 'orders' });
  expect(verification!.found).toEqual({});
  expect(performance.now() - start).toBeLessThan(15_000);
}, 120_000);
