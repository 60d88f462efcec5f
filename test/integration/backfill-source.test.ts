import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { defineConfig, timeline } from '../../src/config/define-config.ts';
import { withClient } from '../../src/db/transaction.ts';
import { correct } from '../../src/log/append.ts';
import {
  abandonBackfill,
  openBackfill,
  promoteBackfill,
  revertBackfill,
  sealBackfill,
} from '../../src/log/backfill.ts';
import type { BackfillOpening } from '../../src/log/backfill.ts';
import { setUpBackfillSource } from '../support/backfill-source.ts';

const config = defineConfig({
  targets: { prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }) },
});

describe('backfills in the source', () => {
  const { databases, db, opening, opened, insert, loaded, stateOf, requestsOf } =
    setUpBackfillSource('backfill source');

  test('the same opened again is no error, and another one of its name is refused with what differs', async () => {
    const backfill = opening({ boundary: { prices: { from: '2026-01-01', to: '2026-02-01' } } });
    expect(await openBackfill(db.source, backfill)).toBe(true);
    expect(await openBackfill(db.source, backfill)).toBe(false);
    await expect(openBackfill(db.source, { ...backfill, reason: 'another', boundary: {} })).rejects.toThrow(
      `there is a backfill "${backfill.name}" already, with another reason, boundary`,
    );
  });

  test.each<[string, Partial<BackfillOpening>, RegExp]>([
    ['no reason', { reason: ' ' }, /without a reason/],
    ['no logic version', { logicVersion: '' }, /without the version of the logic/],
    ['a bad name', { name: 'Not A Name' }, /cannot be the name/],
    ['no target', { targets: [] }, /has a target/],
    ['an unknown target', { targets: ['prices', 'price'] }, /there is no target "price"/],
    ['a control table', { targets: ['_request'] }, /there is no target/],
    ['a target twice', { targets: ['prices', 'prices'] }, /named twice/],
    ['a boundary of another target', { boundary: { values: { from: '1' } } }, /no target of this backfill/],
    [
      'a misspelt boundary',
      { boundary: { prices: { form: '1' } as object } },
      /boundary of "prices" cannot be read/,
    ],
  ])('open refuses %s, and says what to do', async (_what, over, message) => {
    const refused: unknown = await openBackfill(db.source, opening(over)).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'EM002', hint: expect.stringMatching(/\S/) as string });
    expect((refused as Error).message).toMatch(message);
  });

  test('rows and seal may be written in one transaction of the application, with Drizzle or pg', async () => {
    const client = new pg.Client({ connectionString: databases.sourceUrl });
    await client.connect();
    onTestFinished(() => client.end());
    const backfill = opening();
    await drizzle(client).transaction(async (tx) => {
      await openBackfill(tx, backfill);
      await correct(
        tx,
        config.targets.prices,
        { product: 'A', valid_from: '2026-01-01', price: '5' },
        { backfill: backfill.name },
      );
      await sealBackfill(tx, backfill.name, { reason: 'all there' });
      await promoteBackfill(tx, backfill.name, {
        accept: { gaps: 'none expected' },
        at: '2026-12-01 00:00:00+00',
      });
    });
    expect(await requestsOf(backfill.name)).toEqual(['chunk', 'seal', 'promote']);
    const { rows } = await db.source.query<{ details: string }>(
      `select details::text as details from corrections._request where backfill = $1 and request = 'promote'`,
      [backfill.name],
    );
    expect(JSON.parse(rows[0]!.details)).toEqual({
      ignore_window: false,
      accept: { gaps: 'none expected' },
      at: expect.stringContaining('2026-12-01') as string,
    });
  });

  test('what a state does not allow is refused, and asked twice is asked once', async () => {
    const why = { reason: 'wrong rule' };
    const open = await loaded();
    await expect(promoteBackfill(db.source, open)).rejects.toThrow(/is not sealed/);
    await expect(revertBackfill(db.source, open, why)).rejects.toThrow(/was never promoted/);
    await sealBackfill(db.source, open);
    await expect(revertBackfill(db.source, open, why)).rejects.toThrow(/was never promoted/);
    await promoteBackfill(db.source, open);
    await expect(revertBackfill(db.source, open, { reason: '' })).rejects.toThrow(/without a reason/);
    const asked = await revertBackfill(db.source, open, why);
    expect(await revertBackfill(db.source, open, why)).toBe(asked);
    await expect(promoteBackfill(db.source, open)).rejects.toThrow(/was asked to be reverted/);
    await expect(abandonBackfill(db.source, open, why)).rejects.toThrow(/was asked to be reverted/);
    expect(await requestsOf(open)).toEqual(['chunk', 'seal', 'promote', 'revert']);
    expect(await stateOf(open)).toBe('reverted');

    const other = await loaded();
    expect(await stateOf(other)).toBe('open');
    await abandonBackfill(db.source, other, why);
    await expect(sealBackfill(db.source, other)).rejects.toThrow(/was abandoned/);
    await expect(promoteBackfill(db.source, other)).rejects.toThrow(/is not sealed/);
    await expect(db.source.query(insert(other))).rejects.toThrow(/was closed at/);
    expect(await stateOf(other)).toBe('abandoned');
  });

  test.each<[string, () => Promise<unknown>, RegExp]>([
    ['an unknown backfill', () => sealBackfill(db.source, 'nope'), /there is no backfill "nope"/],
    ['one without rows', async () => sealBackfill(db.source, await opened()), /has no rows/],
    [
      'an acceptance without a reason',
      async () => {
        const name = await loaded();
        await sealBackfill(db.source, name);
        return promoteBackfill(db.source, name, { accept: { gaps: ' ' } });
      },
      /"gaps" is not accepted without a reason/,
    ],
    [
      'rows of a target that it is not of',
      async () =>
        db.source.query(`insert into corrections.values (id, _backfill) values (1, $1)`, [await opened()]),
      /is not of target values/,
    ],
    [
      'an import',
      async () => {
        await db.source.query(
          `insert into corrections._backfill (name, kind, targets) values ('history', 'import', '{prices}')`,
        );
        return sealBackfill(db.source, 'history');
      },
      /is an import/,
    ],
  ])('refuses %s', async (_what, ask, message) => {
    await expect(ask()).rejects.toThrow(message);
  });

  test('who asked is the role that asked, not the owner of the function', async () => {
    const role = `asker_${Date.now()}`;
    await db.source.query(
      `create role ${role};
       grant usage on schema corrections to ${role};
       grant execute on all functions in schema corrections to ${role}`,
    );
    onTestFinished(async () => {
      await db.source.query(`drop owned by ${role}; drop role ${role}`);
    });
    const name = await loaded();
    await withClient(db.source, async (client) => {
      await client.query(`set role ${role}`);
      await sealBackfill(client, name);
      await expect(
        openBackfill(client, opening({ boundary: { prices: { where: 'true' } } })),
      ).rejects.toThrow(/owner of emend's tables only/);
      await expect(openBackfill(client, opening({ checks: { mine: { sql: 'select 1' } } }))).rejects.toThrow(
        /owner of emend's tables only/,
      );
      await client.query('reset role');
    });
    const { rows } = await db.source.query(
      `select distinct _actor from corrections._request where backfill = $1`,
      [name],
    );
    expect(rows).toEqual([{ _actor: role }]);
  });
});
