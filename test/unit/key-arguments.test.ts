import { describe, expect, it } from 'vitest';
import type { Column, Target } from '../../src/change/target.ts';
import { keyConditions } from '../../src/pipeline/key-arguments.ts';

const column = (name: string): Column => ({
  name,
  type: 'text',
  baseType: 'text',
  equals: 'operator(pg_catalog.=)',
  nullable: false,
  defaultSql: null,
});

const prices: Target = {
  kind: 'facts',
  name: 'prices',
  schema: 'public',
  table: 'prices',
  key: [column('product_id')],
  values: [column('unit')],
  version: null,
  eventTime: null,
  checks: [],
  isPartitioned: false,
};

describe('--key', () => {
  it.each([
    ['product_id=A', 'A'],
    ['product_id=unit=kg', 'unit=kg'],
    ['A', 'A'],
    ['A=B', 'A=B'],
    ['YWI=', 'YWI='],
  ])('%s of a key of one column means the value %s', (text, value) => {
    expect(keyConditions(prices, [text])).toEqual([{ column: prices.key[0], value }]);
  });

  it.each(['unit=kg', 'prodct_id=A'])(
    '%s is refused instead of being looked up as a value, which nothing has',
    (text) => {
      expect(() => keyConditions(prices, [text])).toThrow(/does not name a key column of prices/);
    },
  );
});
