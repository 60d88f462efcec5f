import { expect, it } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { createInstall } from '../support/install.ts';

/** Half of them reverted. */
const backfills = 16;
const rowsOfEach = 4_000;

it('a verify of reverted backfills does not hold each correction against each of their rows', async () => {
  const { source, store, config } = await createInstall('verify plans', {
    ddl: `create table public.orders (id integer primary key, amount integer not null)`,
    targets: { orders: facts('public.orders', { key: ['id'] }) },
  });
  await source.query(
    `select corrections.open_backfill('b-' || i, '{orders}', 'a test', 'v1') from generate_series(1, ${backfills}) i`,
  );
  await source.query(
    `insert into corrections.orders (id, amount, _backfill)
     select i, i, 'b-' || 1 + i % ${backfills} from generate_series(1, ${backfills * rowsOfEach}) i`,
  );
  const { rows: logged } = await source.query<{ id: string; nonce: string; key: string; name: string }>(
    `select _id as id, _nonce as nonce, id as key, _backfill as name from corrections.orders`,
  );
  // as their promotes and reverts leave it, and as many rows of other targets
  await store.query(
    `insert into emend.backfill (name, targets, boundary, origin, checks, state, opened_at, told_at, reverted_at)
     select 'b-' || i, '{orders}', '{}', '{}', '{}', case when i % 2 = 0 then 'reverted' else 'promoted' end,
       now(), timestamptz '2026-01-01', case when i % 2 = 0 then timestamptz '2026-01-02' end
     from generate_series(1, ${backfills}) i`,
  );
  await store.query(
    `with entry as (
       select e.*, b.state = 'reverted' as is_undone
       from unnest($1::bigint[], $2::bigint[], $3::integer[], $4::text[]) as e (id, nonce, key, name)
       join emend.backfill b on b.name = e.name
     ),
     merged as (
       insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at, _backfill)
       select id + other.n * 1000000, case other.n when 0 then 'orders' else 'other' end, timestamptz '2026-01-01', nonce, now(), name
       from entry cross join generate_series(0, 2) as other (n)
     ),
     undone as (
       insert into emend.undone (_id, target, told_at, actor, reason)
       select id, 'orders', timestamptz '2026-01-02', 'tester', 'reverted' from entry where is_undone
     ),
     superseded as (
       insert into emend.orders_history (id, amount, _version, _known_from, _known_to, _backfill)
       select key, key, id, timestamptz '2026-01-01', timestamptz '2026-01-02', name from entry where is_undone
     )
     insert into public.orders (id, amount, _version, _known_from, _backfill)
     select key, key, id, timestamptz '2026-01-01', name from entry where not is_undone`,
    [
      logged.map(({ id }) => id),
      logged.map(({ nonce }) => nonce),
      logged.map(({ key }) => key),
      logged.map(({ name }) => name),
    ],
  );
  await store.query(`analyze`);
  const start = performance.now();
  const [verification] = await verify(config, { target: 'orders' });
  expect(verification!.found).toEqual({});
  expect(performance.now() - start).toBeLessThan(20_000);
}, 120_000);
