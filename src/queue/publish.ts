import { setTimeout as delay } from 'node:timers/promises';
import type { JobsOptions } from 'bullmq';
import type { Batch } from '../change/batch.ts';
import { encodeBatch } from '../change/codec.ts';
import type { Publish } from '../change/ports.ts';
import type { Broker, BullQueue } from './broker.ts';
import { answerOf } from './deadline.ts';
import type { Epoch } from './epoch.ts';
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

interface Publishing {
  readonly broker: Broker;
  readonly bull: BullQueue;
  readonly epoch: Epoch;
  readonly tuning: Tuning;
}

/**
 * Adding several jobs is not atomic, and an add that was never answered may have happened: the same is offered again
 * under the same ids, which the server knows.
 */
export function createPublish({ broker, bull, epoch, tuning }: Publishing): Publish {
  async function addOnce(batches: readonly Batch[], limitMs: number): Promise<void> {
    const jobs = batches.map((batch) => ({
      name: 'batch',
      data: encodeBatch(batch),
      opts: { ...jobOptions, jobId: `${batch.id}-${epoch.current}` },
    }));
    const [first] = jobs;
    if (!first) return;
    const added = jobs.length === 1 ? bull.add(first.name, first.data, first.opts) : bull.addBulk(jobs);
    await answerOf<unknown>(limitMs, added, `adding ${jobs.length} batches to the queue`, () =>
      broker.abandonCommands(),
    );
  }

  async function add(batches: readonly Batch[]): Promise<void> {
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
    for (const call of splitByBytes(batches)) await add(call);
  };
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
