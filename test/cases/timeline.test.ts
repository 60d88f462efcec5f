import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Target } from '../../src/change/target.ts';
import { withClient } from '../../src/db/transaction.ts';
import { tick } from '../../src/store/clock.ts';
import { createDatabases } from '../support/databases.ts';
import { batchOf, createStore, logRows, noAbort } from '../support/store.ts';
import type { StoreUnderTest, TestRow } from '../support/store.ts';

type Values = Record<string, string | number | null>;

interface CasePiece {
  readonly key: Values;
  readonly valid_from: string | null;
  readonly valid_to: string | null;
  readonly values: Values;
}

interface TimelineCase {
  readonly id: string;
  readonly title: string;
  readonly keyColumns: string[];
  readonly steps: readonly (CasePiece & { readonly op: string })[];
  readonly expected: readonly CasePiece[];
  readonly asOf?: readonly { readonly afterStep: number; readonly expected: readonly CasePiece[] }[];
}

const cases = JSON.parse(readFileSync(new URL('timeline.json', import.meta.url), 'utf8')) as TimelineCase[];
const targetName = (place: number) => `case_${place}`;
/** One sequence for all logs: an `_id` belongs to one target. */
const idOf = (place: number, step: number) => place * 1000 + step;

describe('cases of public suites', () => {
  let store: StoreUnderTest;

  beforeAll(async () => {
    const { storeUrl } = await createDatabases('cases');
    const declarations = cases.map(({ keyColumns }, place) => ({
      name: targetName(place),
      kind: 'timeline' as const,
      key: keyColumns,
      period: { from: 'valid_from', to: 'valid_to', mode: 'override' as const },
    }));
    store = await createStore(storeUrl, cases.map(tableOf).join(';\n'), declarations);
  });
  afterAll(() => store?.pool.end());

  it('are the 63 that were collected', () => expect(cases).toHaveLength(63));

  it.each(cases.map((example, place) => ({ ...example, place })))(
    '$id: $title',
    async ({ place, ...example }) => {
      const target = store.targets[place]!;
      const rows = example.steps.map((step, index) => logRow(step, idOf(place, index + 1)));

      for (const row of rows) await store.handle(batchOf(logRows(target, [row])), noAbort);
      expect(await periods(store, `emend.${target.name}_periods`)).toEqual(written(example.expected));
      await withClient(store.pool, tick);
      for (const { afterStep, expected } of example.asOf ?? []) {
        const told = `select told_at from emend.ledger where _id = ${idOf(place, afterStep)}`;
        const known = `emend.${target.name}_periods_as_of((${told}))`;
        expect(await periods(store, known), `after step ${afterStep}`).toEqual(written(expected));
      }

      // law 2: the same from every order of delivery
      for (const order of orders(rows)) {
        await empty(store, target);
        for (const part of cut(order)) await store.handle(batchOf(logRows(target, part)), noAbort);
        expect(await periods(store, `emend.${target.name}_periods`)).toEqual(written(example.expected));
      }
    },
  );
});

function tableOf({ keyColumns, steps }: TimelineCase, place: number): string {
  const keys = keyColumns.map((name) => `"${name}" text not null`);
  const values = valueNames(steps).map((name) => `"${name}" text`);
  const columns = [...keys, 'valid_from timestamptz not null', 'valid_to timestamptz not null', ...values];
  return `create table public.${targetName(place)} (${columns.join(', ')})`;
}

function valueNames(pieces: readonly CasePiece[]): string[] {
  return [...new Set(pieces.flatMap((piece) => Object.keys(piece.values)))];
}

function logRow(
  { op, key, valid_from, valid_to, values }: TimelineCase['steps'][number],
  id: number,
): TestRow {
  return {
    ...key,
    ...values,
    valid_from: valid_from ?? '-infinity',
    valid_to: valid_to ?? 'infinity',
    _id: id,
    _op: op,
  };
}

async function periods({ pool }: StoreUnderTest, relation: string): Promise<string[]> {
  const { rows } = await pool.query<Record<string, string | null>>(`select * from ${relation}`);
  return rows.map((row) => JSON.stringify(Object.entries(row).sort())).sort();
}

function written(pieces: readonly CasePiece[]): string[] {
  const text = (value: string | number | null) => (value === null ? null : String(value));
  return pieces
    .map(({ key, values, valid_from, valid_to }) => {
      const row = {
        ...key,
        ...values,
        valid_from: instant(valid_from, '-infinity'),
        valid_to: instant(valid_to, 'infinity'),
      };
      return JSON.stringify(
        Object.entries(row)
          .map(([name, value]) => [name, text(value)])
          .sort(),
      );
    })
    .sort();
}

/** As Postgres writes it, with the microseconds that Date would cut. */
function instant(iso: string | null, open: string): string {
  if (iso === null) return open;
  return iso
    .replace('T', ' ')
    .replace('Z', '+00')
    .replace(/\.(\d*?)0+\+/, '.$1+')
    .replace('.+', '+');
}

async function empty({ pool }: StoreUnderTest, { name }: Target): Promise<void> {
  await pool.query(
    `truncate public.${name}, emend.${name}_history, emend.${name}_shadow, emend.${name}_tombstone, emend.ledger_recent`,
  );
}

/** Every order of up to five steps; fifty random ones of more, with one step delivered twice. */
function orders<T>(rows: readonly T[]): T[][] {
  if (rows.length <= 5) return permutations(rows);
  return Array.from({ length: 50 }, () => [
    ...shuffled(rows),
    rows[Math.floor(Math.random() * rows.length)]!,
  ]);
}

function permutations<T>(rows: readonly T[]): T[][] {
  if (rows.length <= 1) return [[...rows]];
  return rows.flatMap((row, place) => permutations(rows.toSpliced(place, 1)).map((rest) => [row, ...rest]));
}

function shuffled<T>(rows: readonly T[]): T[] {
  const order = [...rows];
  for (let place = order.length - 1; place > 0; place--) {
    const other = Math.floor(Math.random() * (place + 1));
    [order[place], order[other]] = [order[other]!, order[place]!];
  }
  return order;
}

function cut<T>(rows: readonly T[]): T[][] {
  const parts: T[][] = [[]];
  for (const row of rows) {
    if (Math.random() < 0.4 && parts.at(-1)!.length > 0) parts.push([]);
    parts.at(-1)!.push(row);
  }
  return parts;
}
