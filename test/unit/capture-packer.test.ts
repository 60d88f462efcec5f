import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Batch } from '../../src/change/batch.ts';
import { createPacker, type Packer } from '../../src/capture/packer.ts';

const prices = { target: 'prices', columns: ['_id', 'price'] };
const orders = { target: 'orders', columns: ['_id', 'note'] };

interface Sent {
  readonly batch: Batch;
  readonly complete: boolean;
}

function packerOf(atomicRows: number, atomicBytes = 1_000_000): { packer: Packer; sent: Sent[] } {
  const sent: Sent[] = [];
  const packer = createPacker({
    atomicRows,
    atomicBytes,
    emit: (batch, complete) => sent.push({ batch, complete }),
  });
  return { packer, sent };
}

let nextId = 0;

function transaction(packer: Packer, end: bigint, rows: number, bytesPerRow = 10): string[] {
  const ids: string[] = [];
  packer.begin({ commitLsn: end - 5n, committedAtMs: Number(end) });
  for (let i = 0; i < rows; i += 1) {
    const id = String((nextId += 1));
    ids.push(id);
    packer.row(prices, { _id: id, price: '1.50' }, bytesPerRow);
  }
  packer.commit(end);
  return ids;
}

function ids({ batch }: Sent): string[] {
  return batch.parts.flatMap((part) => part.values[0] as string[]);
}

describe('packer', () => {
  test('small transactions travel together, and nothing leaves before it is asked for', () => {
    const { packer, sent } = packerOf(10);
    transaction(packer, 100n, 2);
    transaction(packer, 200n, 3);
    expect(sent).toEqual([]);
    expect(packer.waitingRows).toBe(5);
    packer.flush();
    packer.flush();
    expect(sent).toHaveLength(1);
    expect(sent[0]).toMatchObject({ complete: true, batch: { rows: 5, endLsn: 200n, committedAtMs: 100 } });
  });

  test('a transaction that would not fit beside the waiting ones is not split', () => {
    const { packer, sent } = packerOf(10);
    transaction(packer, 100n, 6);
    transaction(packer, 200n, 6);
    packer.flush();
    expect(sent.map(({ batch }) => [batch.rows, batch.endLsn])).toEqual([
      [6, 100n],
      [6, 200n],
    ]);
    expect(packer.transactionsCut).toBe(0);
  });

  test('a transaction of exactly atomicRows is whole, one row more is cut once and counted once', () => {
    const { packer, sent } = packerOf(10);
    transaction(packer, 100n, 10);
    expect(packer.transactionsCut).toBe(0);
    transaction(packer, 200n, 31);
    packer.flush();
    expect(sent.map(({ batch, complete }) => [batch.rows, complete])).toEqual([
      [10, true],
      [10, false],
      [10, false],
      [10, false],
      [1, true],
    ]);
    expect(packer.transactionsCut).toBe(1);
  });

  test('pieces of a large transaction leave while it is still being received', () => {
    const { packer, sent } = packerOf(10);
    packer.begin({ commitLsn: 95n, committedAtMs: 1 });
    for (let id = 1; id <= 25; id += 1) packer.row(prices, { _id: String(id), price: null }, 10);
    expect(sent).toHaveLength(2);
    expect(sent[0]?.batch.id).toBe('b-5f-1-10-10');
  });

  test('bytes cut as rows do, and one row above the limit is a batch of its own', () => {
    const { packer, sent } = packerOf(1_000, 100);
    transaction(packer, 100n, 3, 150);
    packer.flush();
    expect(sent.map(({ batch }) => batch.rows)).toEqual([1, 1, 1]);
  });

  test('rows of two logs in one transaction stay in one batch, column by column', () => {
    const { packer, sent } = packerOf(10);
    packer.begin({ commitLsn: 95n, committedAtMs: 1 });
    packer.row(prices, { _id: '1', price: '1.50' }, 10);
    packer.row(orders, { _id: '2', note: null }, 10);
    packer.row(prices, { _id: '3', price: '' }, 10);
    packer.commit(100n);
    packer.flush();
    expect(sent[0]?.batch.parts).toEqual([
      {
        target: 'prices',
        columns: ['_id', 'price'],
        values: [
          ['1', '3'],
          ['1.50', ''],
        ],
      },
      { target: 'orders', columns: ['_id', 'note'], values: [['2'], [null]] },
    ]);
  });

  test('a row without one of its columns is an error, not a null', () => {
    const { packer } = packerOf(10);
    packer.begin({ commitLsn: 95n, committedAtMs: 1 });
    expect(() => packer.row(prices, { _id: '1' }, 10)).toThrow(/without a column/);
  });

  test('every row leaves once, in order, in batches within the limits, and small transactions stay whole', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            rows: fc.integer({ min: 0, max: 40 }),
            bytes: fc.integer({ min: 1, max: 60 }),
            flush: fc.boolean(),
          }),
        ),
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 50, max: 500 }),
        (transactions, atomicRows, atomicBytes) => {
          const { packer, sent } = packerOf(atomicRows, atomicBytes);
          const expected: string[] = [];
          const whole: string[][] = [];
          let end = 0n;
          let cut = 0;
          for (const { rows, bytes, flush } of transactions) {
            const added = transaction(packer, (end += 10n), rows, bytes);
            expected.push(...added);
            if (rows <= atomicRows && rows * bytes <= atomicBytes) whole.push(added);
            else if (rows > 1) cut += 1;
            if (flush) packer.flush();
          }
          packer.flush();
          expect(sent.flatMap(ids)).toEqual(expected);
          expect(packer.transactionsCut).toBe(cut);
          for (const { batch } of sent) {
            expect(batch.rows).toBeLessThanOrEqual(atomicRows);
            if (batch.rows > 1) expect(batch.bytes).toBeLessThanOrEqual(atomicBytes);
          }
          const batchOf = new Map(sent.flatMap((each, at) => ids(each).map((id) => [id, at] as const)));
          for (const each of whole)
            expect(new Set(each.map((id) => batchOf.get(id))).size).toBeLessThanOrEqual(1);
          expect(new Set(sent.map(({ batch }) => batch.id)).size).toBe(sent.length);
          for (const { batch } of sent) expect(batch.id).toMatch(/^b-[0-9a-f]+-\d+-\d+-\d+$/);
        },
      ),
    );
  });
});
