import { expect, it } from 'vitest';
import { createRandom } from '../../bench/harness/random.ts';
import { judge } from './flat.ts';

const random = createRandom(7);
const series = (valueAt: (place: number) => number, count = 300) =>
  judge({
    name: 'x',
    unit: 'MB',
    share: 0.1,
    amount: 5,
    points: Array.from({ length: count }, (_, place) => ({ atMs: place * 2_000, value: valueAt(place) })),
  });
const noise = (): number => random.below(20) - 10;

it('a steady figure with noise and outliers is flat', () => {
  expect(series(() => 200 + noise()).isFlat).toBe(true);
  expect(series((place) => (place % 17 === 0 ? 900 : 200 + noise())).isFlat).toBe(true);
});

it('a leak is not, also within noise and outliers, and beneath the teeth of a saw', () => {
  expect(series((place) => 200 + place * 0.3 + noise()).isFlat).toBe(false);
  expect(series((place) => (place % 17 === 0 ? 900 : 200 + place * 0.3 + noise())).isFlat).toBe(false);
  expect(series((place) => 200 + place * 0.3 + (place % 30) * 2).isFlat).toBe(false);
});

it('a step within the first minutes is a warm-up, and one in the middle is a rise', () => {
  expect(series((place) => (place < 20 ? 100 : 200) + noise()).isFlat).toBe(true);
  expect(series((place) => (place < 150 ? 200 : 260) + noise()).isFlat).toBe(false);
});

it('what shrinks is flat, and what was hardly looked at is not', () => {
  expect(series((place) => 500 - place).isFlat).toBe(true);
  expect(series(() => 200, 5).isFlat).toBe(false);
});
