import { setTimeout as delay } from 'node:timers/promises';
import type { JobsOptions } from 'bullmq';
import type { Batch, QueuedBatch } from '../change/batch.ts';
import { encodeBatch } from '../change/codec.ts';
import type { Publish } from '../change/ports.ts';
import { referTo } from '../change/refer.ts';
import type { Broker, BullQueue } from './broker.ts';
import { answerOf } from './deadline.ts';
import type { Epoch } from './epoch.ts';
import type { Fill } from './fill.ts';
import type { Tuning } from './tuning.ts';

/** Text of one call: small enough not to hold up the server's only thread, large enough to fill a round trip. */
const bytesPerCall = 4 * 1024 * 1024;

const jobOptions: JobsOptions = {
  // A job that stays behind, completed or failed, would swallow a later one of its id in silence.
  removeOnComplete: true,
  removeOnFail: true,
  // The handler sets bad rows aside itself, so that what fails here is worth another try for ever.
  attempts: 1_000_000_000,
  backoff: { type: 'capped' },
  stackTraceLimit: 0,
};

/**
 * A batch above either is bulk: it gives way to smaller ones that wait, whenever they came, since order does not matter (law 2).
 * So a correction is not late because of a million others that were written before it. Small transactions that the reader has
 * packed together are not bulk: they would wait for each of those that came alone.
 */
const bulkRows = 400;
const bulkBytes = 64 * 1024;

/**
 * A batch above it goes by reference, however little waits: it is one very large row. A text of JavaScript, of jsonb and of Redis
 * ends at 256 to 512 MB, and what cannot be put on the queue would stand in the way of everything behind it.
 */
const maxBytesByValue = 32 * 1024 * 1024;

/** What a job takes beside its batch, about. */
const bytesPerJob = 1_000;

interface Publishing {
  readonly broker: Broker;
  readonly bull: BullQueue;
  readonly epoch: Epoch;
  readonly tuning: Tuning;
  /** Left out: batches go by value, however many wait. */
  readonly fill?: Fill;
}

/**
 * Adding several jobs is not atomic, and an add that was never answered may have happened: the same is offered again
 * under the same ids, which the server knows.
 */
export function createPublish({ broker, bull, epoch, tuning, fill }: Publishing): Publish {
  async function addOnce(batches: readonly Offered[], limitMs: number): Promise<void> {
    const current = await epoch.known();
    const jobs = batches.map(({ batch, isBulk }) => ({
      name: 'batch',
      data: encodeBatch(batch),
      opts: { ...jobOptions, priority: isBulk ? 1 : 0, jobId: `${batch.id}-${current}` },
    }));
    const [first] = jobs;
    if (!first) return;
    const added = jobs.length === 1 ? bull.add(first.name, first.data, first.opts) : bull.addBulk(jobs);
    await answerOf<unknown>(limitMs, added, `adding ${jobs.length} batches to the queue`, () =>
      broker.abandonCommands(),
    );
  }

  async function add(batches: readonly Offered[]): Promise<void> {
    const endAt = Date.now() + tuning.addTimeoutMs;
    for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, 1_000)) {
      try {
        return await addOnce(batches, endAt - Date.now());
      } catch (error) {
        if (Date.now() + pauseMs >= endAt) throw error;
        await delay(pauseMs);
      }
    }
  }

  return async (batches) => {
    for (const call of splitByBytes(batches)) {
      const offered = call.map((batch) => offer(batch, fill));
      await add(offered);
      fill?.add(offered.reduce((sum, { batch: { bytes } }) => sum + bytes + bytesPerJob, 0));
    }
  };
}

interface Offered {
  readonly batch: QueuedBatch;
  readonly isBulk: boolean;
}

function offer(batch: Batch, fill: Fill | undefined): Offered {
  const byReference = fill !== undefined && (fill.isFull() || batch.bytes > maxBytesByValue);
  const isBulk = batch.rows > bulkRows || batch.bytes > bulkBytes;
  return { batch: byReference ? referTo(batch) : batch, isBulk };
}

function* splitByBytes(batches: readonly Batch[]): Generator<Batch[]> {
  let call: Batch[] = [];
  let bytes = 0;
  for (const batch of batches) {
    if (call.length > 0 && bytes + batch.bytes > bytesPerCall) {
      yield call;
      call = [];
      bytes = 0;
    }
    call.push(batch);
    bytes += batch.bytes;
  }
  if (call.length > 0) yield call;
}
