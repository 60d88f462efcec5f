import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createLsnBook } from '../../src/capture/lsn-book.ts';

describe('position book', () => {
  test('an accepted but not durable batch is not confirmed', () => {
    const book = createLsnBook(10n);
    book.begin();
    book.commit(20n, true);
    book.offer(20n);
    book.accept(1);
    expect(book).toMatchObject({ enqueued: 20n, confirmed: 10n });
    book.confirm(20n);
    expect(book.confirmed).toBe(20n);
  });

  test('a piece of a large transaction confirms nothing', () => {
    const book = createLsnBook(10n);
    book.begin();
    book.offer(null);
    book.accept(1);
    book.keepalive(15n);
    expect(book).toMatchObject({ enqueued: 10n, confirmed: 10n });
  });

  test('a keepalive counts only when nothing is on its way', () => {
    const book = createLsnBook(10n);
    book.keepalive(12n);
    expect(book.confirmed).toBe(12n);
    book.begin();
    book.commit(20n, true);
    book.keepalive(30n); // the rows still wait in the packer
    expect(book.confirmed).toBe(12n);
    book.offer(20n);
    book.accept(1);
    expect(book.confirmed).toBe(12n);
    book.confirm(20n);
    expect(book.confirmed).toBe(30n); // heard after the rows, which are safe now
  });

  test('a keepalive inside a transaction waits for its end', () => {
    const book = createLsnBook(10n);
    book.begin();
    book.keepalive(15n);
    expect(book.confirmed).toBe(10n);
    book.commit(20n, true);
    expect(book.confirmed).toBe(10n);
  });

  test('a transaction without rows does not hold anything back', () => {
    const book = createLsnBook(10n);
    book.begin();
    book.commit(20n, false);
    expect(book.confirmed).toBe(20n);
  });

  test('an older position never moves it back', () => {
    const book = createLsnBook(10n);
    book.keepalive(5n);
    book.receive(3n);
    expect(book).toMatchObject({ received: 10n, confirmed: 10n });
  });

  test('accepting or confirming more than was offered is refused', () => {
    const book = createLsnBook(10n);
    expect(() => book.accept(1)).toThrow(RangeError);
    expect(() => book.confirm(11n)).toThrow(RangeError);
  });

  /**
   * The model keeps each transaction with its batches and asks, at every step, which positions a server could be told
   * without losing one that is not durable.
   */
  test('no order of events confirms a transaction with a batch that is not durable', () => {
    const step = fc.constantFrom(
      'begin',
      'cut',
      'commit',
      'empty',
      'flush',
      'keepalive',
      'accept',
      'ask',
      'durable',
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const book = createLsnBook(100n);
        let clock = 100n;
        let open: { batches: { done: boolean }[] } | undefined;
        const packed: { end: bigint; batches: { done: boolean }[] }[] = [];
        const sent: { end: bigint; batches: { done: boolean }[] }[] = [];
        const offered: { done: boolean; accepted: boolean }[] = [];
        let question: { upTo: bigint; covers: { done: boolean }[] } | undefined;
        let last = book.confirmed;
        const offer = (): { done: boolean; accepted: boolean } => {
          const batch = { done: false, accepted: false };
          offered.push(batch);
          return batch;
        };
        for (const each of steps) {
          clock += 10n;
          if (each === 'begin' && !open) {
            open = { batches: [] };
            book.begin();
          } else if (each === 'cut' && open) {
            if (packed.length > 0) flush();
            open.batches.push(offer());
            book.offer(null);
          } else if (each === 'commit' && open) {
            packed.push({ end: clock, batches: open.batches });
            book.commit(clock, true);
            open = undefined;
          } else if (each === 'empty' && !open) {
            book.begin();
            book.commit(clock, false);
          } else if (each === 'flush' && packed.length > 0) {
            flush();
          } else if (each === 'keepalive' && !open) {
            book.keepalive(clock);
          } else if (each === 'accept') {
            const next = offered.find((batch) => !batch.accepted);
            if (next) {
              next.accepted = true;
              book.accept(1);
            }
          } else if (each === 'ask') {
            question = { upTo: book.enqueued, covers: offered.filter((batch) => batch.accepted) };
          } else if (each === 'durable' && question) {
            for (const batch of question.covers) batch.done = true;
            book.confirm(question.upTo);
            question = undefined;
          }
          expect(book.confirmed).toBeGreaterThanOrEqual(last);
          last = book.confirmed;
          const unsafe = [...sent, ...packed].filter(
            (tx) => packed.includes(tx) || tx.batches.some((b) => !b.done),
          );
          for (const tx of unsafe) expect(book.confirmed).toBeLessThan(tx.end);
          expect(book.confirmed <= book.enqueued && book.enqueued <= book.received).toBe(true);
        }

        function flush(): void {
          const batch = offer();
          for (const tx of packed) tx.batches.push(batch);
          book.offer(packed.at(-1)!.end);
          sent.push(...packed.splice(0));
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test('everything durable means everything confirmed', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 30 }),
        (batchesPerTransaction) => {
          const book = createLsnBook(0n);
          let end = 0n;
          for (const count of batchesPerTransaction) {
            end += 10n;
            book.begin();
            for (let i = 1; i < count; i += 1) book.offer(null);
            book.commit(end, true);
            book.offer(end);
          }
          book.accept(batchesPerTransaction.reduce((sum, count) => sum + count, 0));
          book.confirm(book.enqueued);
          expect(book.confirmed).toBe(end);
        },
      ),
    );
  });
});
