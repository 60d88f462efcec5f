import { describe, expect, it, onTestFinished } from 'vitest';
import { withClient } from '../../src/db/transaction.ts';
import { createMerge } from '../../src/merge/merge.ts';
import { resolveTargets } from '../../src/store/resolve-targets.ts';
import { planStore } from '../../src/store/store.ts';
import { createDatabases } from '../support/databases.ts';
import { createStore, silentLog } from '../support/store.ts';

interface Ends {
  readonly openEnd?: string | null;
  readonly closed?: boolean;
}

const declared = (ends: Ends) => ({
  name: 'prices',
  kind: 'timeline' as const,
  key: ['product'],
  period: { from: 'valid_from', to: 'valid_to', mode: 'override' as const, ...ends },
  schema: 'public',
  table: 'prices',
  eventTime: null,
  version: null,
  exclusion: false,
  allow: [],
});

async function migrated(ends: Ends) {
  const store = await createStore(
    (await createDatabases('end forms')).storeUrl,
    `create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric)`,
    [declared(ends)],
  );
  onTestFinished(() => store.pool.end());
  return store;
}

/** A store that was migrated with `before`, and what migrating it with `after` would do. */
async function migrateTwice(before: Ends, after: Ends, between = 'select') {
  const store = await migrated(before);
  await store.pool.query(between);
  return withClient(store.pool, async (client) => {
    const [target] = await resolveTargets(client, [declared(after)]);
    return planStore(client, target!);
  });
}

describe('how a migrated table writes its ends', () => {
  it.each<[what: string, before: Ends, after: Ends, putBack: string]>([
    ['closed', {}, { closed: true }, 'closed: false'],
    ['openEnd', {}, { openEnd: '9999-12-31' }, 'openEnd: "infinity"'],
    ['openEnd', { openEnd: '9999-12-31' }, {}, 'openEnd: "9999-12-31"'],
  ])(
    'cannot change in %s, since recorded ends would mean another time',
    async (what, before, after, putBack) => {
      await expect(migrateTwice(before, after)).rejects.toMatchObject({
        code: 'migration_destructive',
        message: `targets.prices: ${what} changed since it was migrated`,
        remedy: expect.stringContaining(`Or declare again what was migrated: ${putBack}.`) as string,
      });
    },
  );

  it('is no change when the default is written out', async () => {
    expect(await migrateTwice({}, { openEnd: 'infinity', closed: false })).toEqual([]);
  });

  it('is recorded where an earlier release had not done so', async () => {
    const forget = `update emend.target set contract = (contract::jsonb - 'closed' - 'openEnd')::json`;
    const statements = await migrateTwice({}, {}, forget);
    expect(statements.at(-1)!.sql).toContain('"closed":false,"openEnd":"infinity"');
  });

  it.each<[what: string, ends: Ends]>([
    ['closed is', { closed: true }],
    ['openEnd is', { openEnd: '9999-12-31' }],
    ['closed, openEnd are', { closed: true, openEnd: '9999-12-31' }],
  ])('stops a worker whose configuration has another form, without migrate: %s', async (what, ends) => {
    const { pool } = await migrated({});
    const targets = await withClient(pool, (client) => resolveTargets(client, [declared(ends)]));
    await expect(createMerge({ pool, targets, log: silentLog })).rejects.toMatchObject({
      code: 'target_invalid',
      message: `targets.prices: ${what} declared otherwise than it was migrated`,
      remedy: expect.stringContaining('emend migrate') as string,
    });
  });
});
