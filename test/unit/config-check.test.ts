import { bigint, integer, pgSchema, pgTable, text } from 'drizzle-orm/pg-core';
import { describe, expect, it } from 'vitest';
import { resolveConfig } from '../../src/config/config.ts';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { EmendError } from '../../src/errors.ts';

const env = {
  SOURCE_URL: 'postgres://app:secret@db:5432/app',
  STORE_URL: 'postgres://emend@store/analytics',
};
const prices = timeline('public.prices', { key: ['product_id'], period: ['valid_from', 'valid_to'] });

/** Problems of a configuration as `path: problem → remedy` lines. */
function problemsOf(input: unknown, variables: Record<string, string> = env): string[] {
  try {
    resolveConfig(input, variables);
    return [];
  } catch (error) {
    expect(error).toBeInstanceOf(EmendError);
    const { code, problems } = error as EmendError;
    expect(code).toBe('config_invalid');
    return problems.map(({ path, problem, remedy }) => `${path}: ${problem} → ${remedy}`);
  }
}

describe('a configuration', () => {
  it('gets its URLs from the environment and every default', () => {
    expect(resolveConfig(defineConfig({ targets: { prices } }), env)).toEqual({
      source: { url: env.SOURCE_URL, replicationUrl: env.SOURCE_URL },
      store: { url: env.STORE_URL },
      queue: { redis: null, prefix: null, maxBytes: 268_435_456 },
      targets: [
        {
          name: 'prices',
          kind: 'timeline',
          schema: 'public',
          table: 'prices',
          key: ['product_id'],
          period: { from: 'valid_from', to: 'valid_to', mode: 'override', closed: false },
          eventTime: null,
          version: null,
          exclusion: false,
          allow: [],
        },
      ],
      capture: { atomicRows: 1000, atomicBytes: 1048576, lingerMs: 5, readers: 1 },
      merge: { concurrency: 2 },
      log: { keepDays: 0 },
      promote: [],
    });
  });

  it('takes what is written before what the environment says, and empty texts as left out', () => {
    const config = resolveConfig(
      defineConfig({
        source: { url: 'postgres://written/app' },
        store: { url: '' },
        queue: { redis: undefined },
        targets: { prices },
      }),
      { ...env, REPLICATION_URL: 'postgres://direct/app', REDIS_URL: 'redis://queue:6379' },
    );
    expect(config.source).toEqual({ url: 'postgres://written/app', replicationUrl: 'postgres://direct/app' });
    expect(config.store.url).toBe(env.STORE_URL);
    expect(config.queue.redis).toBe('redis://queue:6379');
  });

  it('with one period column holds each start until the next, and derives the end column', () => {
    const periodOf = (period: [string]) =>
      resolveConfig({ targets: { a: timeline('a', { key: ['id'], period }) } }, env).targets[0]?.period;
    expect(periodOf(['valid_from'])).toEqual({
      from: 'valid_from',
      to: 'valid_to',
      mode: 'until_next',
      closed: false,
    });
    expect(periodOf(['start'])).toEqual({ from: 'start', to: 'end', mode: 'until_next', closed: false });
    expect(problemsOf({ targets: { a: timeline('a', { key: ['id'], period: ['since'] }) } })[0]).toMatch(
      /^targets\.a\.period: .*mode: 'until_next'/,
    );
  });

  it('says how a table writes its ends', () => {
    const table = timeline('a', { key: ['id'], period: ['f', 't'], openEnd: null, closed: true });
    expect(resolveConfig({ targets: { a: table } }, env).targets[0]?.period).toMatchObject({
      openEnd: null,
      closed: true,
    });
    expect(problemsOf({ targets: { a: { ...table, openEnd: 9999, closed: 'yes' } } })).toHaveLength(2);
    expect(
      problemsOf({ targets: { a: { ...table, mode: 'sometimes', openEnd: 9999, closed: 'yes' } } }),
    ).toHaveLength(3);
  });

  it.each([
    ['orders', 'public', 'orders'],
    ['sales.orders', 'sales', 'orders'],
    ['Sales.Orders', 'Sales', 'Orders'],
    ['"Sales"."Or.ders"', 'Sales', 'Or.ders'],
    ['sales."a""b"', 'sales', 'a"b'],
  ])('reads the table name %s', (ref, schema, table) => {
    const [target] = resolveConfig({ targets: { a: facts(ref, { key: ['id'] }) } }, env).targets;
    expect([target?.schema, target?.table]).toEqual([schema, table]);
  });

  it.each(['', 'a.b.c', '.a', 'a.', 'a b', '"a', 'emend.orders', 'corrections.orders', 'x'.repeat(64)])(
    'refuses the table name "%s"',
    (ref) => {
      expect(problemsOf({ targets: { a: facts(ref, { key: ['id'] }) } })).toHaveLength(1);
    },
  );

  it('says how a table name with a space is written', () => {
    expect(problemsOf({ targets: { a: facts('public.My Table', { key: ['id'] }) } })).toEqual([
      expect.stringContaining(`'public."My Table"'`),
    ]);
  });

  it('resolves Drizzle tables and both names of their columns', () => {
    const orders = pgSchema('sales').table('orders', {
      orderId: bigint('order_id', { mode: 'bigint' }).notNull(),
      sourceSystem: text('source_system').notNull(),
      amount: integer(),
    });
    const [target] = resolveConfig(
      { targets: { orders: facts(orders, { key: ['orderId', 'source_system'] }) } },
      env,
    ).targets;
    expect(target).toMatchObject({ schema: 'sales', table: 'orders', key: ['order_id', 'source_system'] });
    const plain = pgTable('items', { itemId: integer().notNull() });
    expect(
      resolveConfig({ targets: { items: facts(plain, { key: ['item_id'] }) } }, env).targets[0],
    ).toMatchObject({ schema: 'public', table: 'items', key: ['item_id'] });
  });

  it('tells every problem at once, each with its path and remedy', () => {
    const problems = problemsOf(
      {
        sorce: {},
        store: { ulr: 'postgres://x/y' },
        queue: { redis: 'localhost:6379', prefix: 'a:b' },
        capture: { atomicRows: 0, lingerMs: '5' },
        merge: { concurrency: 1.5 },
        targets: {
          Prices: prices,
          empty: facts('a', { key: [] }),
          same: timeline('b', { key: ['id'], period: ['t', 't'] }),
          mode: { ...timeline('c', { key: ['id'], period: ['f', 't'] }), mode: 'sometimes' },
          half: { ...timeline('d', { key: ['id'], period: ['f'] }), mode: 'override' },
          own: facts('e', { key: ['_id'] }),
          twice: facts('f', { key: ['id', 'id'] }),
          shared: facts('b', { key: ['id'] }),
          typo: { ...facts('g', { key: ['id'] }), eventTme: 'at' },
          plain: { table: 'h', key: ['id'] },
          both: timeline('i', { key: ['id', 'f'], period: ['f', 't'] }),
        },
      },
      {},
    );
    const expected = [
      /^sorce: is not an option of emend → Did you mean source\?/,
      /^store\.ulr: .* → Did you mean url\?/,
      /^source\.url: is missing → Set SOURCE_URL/,
      /^store\.url: is missing → Set STORE_URL/,
      /^queue\.redis: is not a Redis URL/,
      /^queue\.prefix: /,
      /^capture\.atomicRows: is 0 → .*1 to 100000.*1000/,
      /^capture\.lingerMs: is a string/,
      /^merge\.concurrency: is 1\.5/,
      /^targets\.Prices: is not a name for a target/,
      /^targets\.empty\.key: is an empty list/,
      /^targets\.same\.period: begins and ends with the same column/,
      /^targets\.mode\.mode: is no mode/,
      /^targets\.half\.mode: 'override' needs both ends/,
      /^targets\.own\.key: column _id begins with an underscore/,
      /^targets\.twice\.key: names id twice/,
      /^targets\.shared: has the same table as targets\.same: public\.b/,
      /^targets\.typo\.eventTme: .* → Did you mean eventTime\?/,
      /^targets\.plain: is neither facts\(\) nor timeline\(\)/,
      /^targets\.both\.period: column f is part of the key/,
    ];
    for (const pattern of expected) expect(problems).toContainEqual(expect.stringMatching(pattern));
    expect(problems).toHaveLength(expected.length);
  });

  it('refuses targets whose own objects would have one name, and takes those whose would not', () => {
    const period = ['f', 't'] as const;
    const problems = problemsOf({
      targets: {
        c_periods: facts('b', { key: ['id'] }),
        c: timeline('a', { key: ['id'], period }),
      },
    });
    expect(problems).toEqual([
      expect.stringMatching(/^targets\.c: .*targets\.c_periods .*emend\.c_periods_as_of → .*another name/),
    ]);
    const alike = {
      c: facts('a', { key: ['id'] }),
      c_periods: timeline('b', { key: ['id'], period }),
      c_history: timeline('d', { key: ['id'], period }),
    };
    expect(problemsOf({ targets: alike })).toEqual([]);
  });

  it.each([[undefined], [null], [[]], [{}], [{ targets: {} }], [{ targets: { a: null } }], ['x']])(
    'of the shape %j is refused, and nothing is thrown but the problems',
    (input) => {
      expect(problemsOf(input).length).toBeGreaterThan(0);
    },
  );

  it('never shows a password in its problems', () => {
    const problems = problemsOf({
      source: { url: 'postgres://app:hunter2@bad host/x' },
      targets: { prices },
    });
    expect(problems).toHaveLength(1);
    expect(problems.join()).not.toContain('hunter2');
  });
});
