import { randomBytes } from 'node:crypto';
import { pino } from 'pino';
import { onTestFinished } from 'vitest';
import type { Batch, QueuedBatch } from '../../src/change/batch.ts';
import type { QueueHome } from '../../src/queue/home.ts';
import { openQueue, type Queue, type QueueOptions } from '../../src/queue/queue.ts';

/** A queue of its own prefix, closed at the end of the test. */
export async function openTestQueue(home: QueueHome, options: Partial<QueueOptions> = {}): Promise<Queue> {
  const queue = await openQueue(home, {
    prefix: newPrefix(),
    log: pino({ level: 'silent' }),
    role: 'test',
    ...options,
  });
  onTestFinished(() => queue.close({ deadlineMs: 3_000 }));
  return queue;
}

export function newPrefix(): string {
  return `{emend-${randomBytes(4).toString('hex')}}`;
}

/** A batch with the values that a careless way would change. */
export function makeBatch(id: string, rows = 4): Batch {
  const values = [
    '\\N',
    '',
    null,
    '12345678901234567890.123',
    'ÄÖ€😀 "quoted"\n',
    '-infinity',
    '{"b": 1, "a": [null]}',
  ];
  return {
    id,
    parts: [
      {
        target: 'prices',
        columns: ['_id', 'price'],
        values: [
          Array.from({ length: rows }, (_, row) => String(row)),
          Array.from({ length: rows }, (_, row) => values[row % values.length] ?? null),
        ],
      },
    ],
    rows,
    bytes: rows * 20,
    endLsn: 0x1_0000_0a00n,
    committedAtMs: 1_700_000_000_000,
  };
}

/** Remembers what it was handed. */
export function recorder(): { handled: QueuedBatch[]; handle: (batch: QueuedBatch) => Promise<void> } {
  const handled: QueuedBatch[] = [];
  return {
    handled,
    async handle(batch) {
      handled.push(batch);
    },
  };
}
