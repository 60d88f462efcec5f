import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { packIds, unpackIds } from '../../src/change/id-list.ts';

describe('numbers of rows as a text', () => {
  test('come out as they went in, in any order and of any size', () => {
    const id = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    const near = fc.bigInt({ min: 1n, max: 40n });
    fc.assert(
      fc.property(fc.oneof(fc.array(id), fc.array(near)), (ids) => {
        expect(unpackIds(packIds(ids.map(String)))).toEqual(ids);
      }),
    );
  });

  test('are short: one part for what one writer wrote, three characters a number where two wrote at once', () => {
    const from = 9_000_000_000;
    const alone = Array.from({ length: 1_000 }, (_, place) => String(from + place));
    expect(packIds(alone)).toBe('9000000000+999');
    const everySecond = Array.from({ length: 1_000 }, (_, place) => String(from + 2 * place));
    expect(packIds(everySecond).length).toBeLessThan(3_000);
  });

  test('a text of somebody else is refused, not read as other numbers', () => {
    expect(() => unpackIds('5 x')).toThrow(SyntaxError);
  });
});
