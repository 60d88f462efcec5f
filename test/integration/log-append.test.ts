import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type pg from 'pg';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { defineConfig, facts } from '../../src/config/define-config.ts';
import { correct, retract, withdraw } from '../../src/log/append.ts';
import { insertStatements } from '../../src/log/append-statement.ts';
import { addresses, byName, createLogs, lastOf, prices, writtenAfter } from '../support/log-append.ts';
import type { SourceUnderTest } from '../support/source.ts';

let db: SourceUnderTest;
let client: pg.Client;
let orm: NodePgDatabase;
let before: string;
beforeAll(async () => {
  ({ db, client, orm } = await createLogs('log append'));
});
beforeEach(async () => {
  before = await lastOf(db);
});

const written = (table: string, columns: string) => writtenAfter(db, before, table, columns);

describe('correct()', () => {
  test('writes typed rows in the application’s Drizzle transaction, and nothing when it rolls back', async () => {
    const row = {
      productId: 'A',
      price: '5.00',
      validFrom: new Date('2026-09-10T00:00:00Z'),
      validTo: '2026-09-12 00:00:00.123456+00',
    };
    await orm.transaction(async (tx) => {
      const ids = await correct(tx, prices, row, { reason: 'contract 17' });
      expect(ids).toEqual([expect.stringMatching(/^\d+$/)]);
    });
    await expect(
      orm.transaction(async (tx) => {
        await correct(tx, prices, { ...row, productId: 'rolled back' });
        throw new Error('on second thoughts');
      }),
    ).rejects.toThrow('on second thoughts');
    expect(
      await written('prices', 'product_id, price, valid_from, valid_to, note, source_system, _op, _reason'),
    ).toEqual([
      {
        product_id: 'A',
        price: '5.00',
        valid_from: '2026-09-10 00:00:00+00',
        valid_to: '2026-09-12 00:00:00.123456+00',
        note: 'none',
        source_system: 'web',
        _op: 'upsert',
        _reason: 'contract 17',
      },
    ]);
  });

  test('writes with a pg client and a pg pool by column names', async () => {
    const row = { product_id: 'B', price: 5, valid_from: '-infinity' };
    await correct(client, byName.prices, row);
    await correct(db.source, byName.prices, [
      row,
      { ...row, valid_to: null },
      { ...row, valid_to: 'infinity' },
    ]);
    expect(await written('prices', 'product_id, valid_to')).toEqual([
      { product_id: 'B', valid_to: null },
      { product_id: 'B', valid_to: null },
      { product_id: 'B', valid_to: null },
      { product_id: 'B', valid_to: 'infinity' },
    ]);
  });

  test.each([
    ['Drizzle', () => orm],
    ['pg', () => client],
  ])('gives a left-out column its default and null null, row by row, in order (%s)', async (_, executor) => {
    const rows = [{ note: 'x' }, {}, { note: null }, { note: undefined }, { note: '' }].map(
      (part, index) => ({
        product_id: `P${index}`,
        price: '1',
        valid_from: '2026-01-01',
        ...part,
      }),
    );
    const ids = await correct(executor(), byName.prices, rows);
    expect(ids).toEqual([...ids].sort((a, b) => Number(a) - Number(b)));
    expect(await written('prices', 'product_id, note')).toEqual([
      { product_id: 'P0', note: 'x' },
      { product_id: 'P1', note: 'none' },
      { product_id: 'P2', note: null },
      { product_id: 'P3', note: 'none' },
      { product_id: 'P4', note: '' },
    ]);
  });

  test('100,000 rows in one call, in their order, the later ones above the earlier', async () => {
    const rows = Array.from({ length: 100_000 }, (_, n) => ({
      product_id: `key ${n}`,
      valid_from: '2026-01-01',
      price: n,
    }));
    const ids = await correct(client, byName.prices, rows);
    expect(ids).toHaveLength(100_000);
    const found = await written('prices', `count(*) over ()::text as count, product_id, _id`).then((all) =>
      all.at(-1),
    );
    expect(found).toEqual({ count: '100000', product_id: 'key 99999', _id: ids.at(-1) });
    expect(ids.every((id, index) => index === 0 || BigInt(id) > BigInt(ids[index - 1]!))).toBe(true);
  });

  test('cuts what is too large for one statement, and keeps the order', () => {
    const column = { name: 'a', type: 'pg_catalog.text', defaultSql: 'null' };
    const texts = ['aaaa', null, 'b', 'c'.repeat(50), '"\\'];
    const defaulted = [false, true, false, false, false];
    const statements = insertStatements('prices', [{ column, texts, defaulted }], { op: 'upsert' }, 20);
    expect(statements.map(({ values }) => values.slice(3))).toEqual([
      ['{"aaaa",NULL,"b"}', '{"false","true","false"}'],
      [`{"${'c'.repeat(50)}"}`, '{"false"}'],
      ['{"\\"\\\\"}', '{"false"}'],
    ]);
  });

  test.each(['', ' \n'])(
    'a reason of %j is refused: it would be kept for ever and say nothing',
    async (reason) => {
      const refused = {
        code: 'correction_invalid',
        message: expect.stringContaining('reason is empty') as string,
      };
      await expect(correct(client, byName.things, { id: 1 }, { reason })).rejects.toMatchObject(refused);
      await expect(retract(client, byName.things, { id: 1 }, { reason })).rejects.toMatchObject(refused);
      expect(await written('things', 'id')).toEqual([]);
    },
  );

  test('what only Postgres knows is its own error', async () => {
    await expect(
      correct(client, byName.prices, {
        product_id: 'A',
        valid_from: '2026-01-02',
        valid_to: '2026-01-01',
        price: 1,
      }),
    ).rejects.toMatchObject({
      code: '23514',
      constraint: 'valid_from must be before valid_to',
    });
  });

  test('no rows, nothing written; a target without configuration or log is told apart', async () => {
    expect(await correct(client, prices, [])).toEqual([]);
    await expect(correct(client, facts('public.x', { key: ['id'] }), { id: 1 })).rejects.toMatchObject({
      code: 'target_unknown',
    });
    const { targets } = defineConfig({ targets: { nowhere: facts('public.x', { key: ['id'] }) } });
    await expect(correct(client, targets.nowhere, { id: 1 })).rejects.toMatchObject({ code: 'not_migrated' });
  });
});

describe('retract() and withdraw()', () => {
  test('state a key and a period', async () => {
    await orm.transaction(async (tx) => {
      await retract(
        tx,
        prices,
        { productId: 'A', validFrom: '2026-01-01', validTo: '2026-02-01' },
        { reason: 'never so' },
      );
      await retract(tx, prices, [{ productId: 'B', validFrom: '2026-01-01' }]);
    });
    await retract(client, byName.things, { id: 1 });
    expect(await written('prices', 'product_id, valid_to, price, _op, _reason')).toEqual([
      {
        product_id: 'A',
        valid_to: '2026-01-31 15:00:00+00',
        price: null,
        _op: 'retract',
        _reason: 'never so',
      },
      { product_id: 'B', valid_to: null, price: null, _op: 'retract', _reason: null },
    ]);
    await withdraw(client, addresses, { person: 1, since: '2026-01-01' });
    const { rows } = await db.source.query('select person, since, city, _op from corrections.addresses');
    expect(rows).toEqual([{ person: '1', since: '2026-01-01', city: null, _op: 'withdraw' }]);
  });

  test('refuse a value', async () => {
    await expect(retract(client, byName.things, { id: 1, code: 'x' })).rejects.toMatchObject({
      code: 'correction_invalid',
      message: 'row 0: a retract has no value for "code"',
    });
  });
});

test('rows of a backfill carry its name, and an unknown one is refused', async () => {
  await db.source.query(`insert into corrections._backfill (name, targets) values ('b1', '{things}')`);
  await correct(client, byName.things, { id: 1 }, { backfill: 'b1' });
  expect(await written('things', '_backfill')).toEqual([{ _backfill: 'b1' }]);
  await expect(correct(client, byName.things, { id: 1 }, { backfill: 'b2' })).rejects.toThrow(
    'there is no backfill "b2"',
  );
});
