import { createPool } from '../../src/db/pool.ts';
import { mergeSettings } from '../../src/merge/merge.ts';
import { carryOutRequests, readRequests } from './backfill-requests.ts';
import type { WorkerTask } from './backfill-requests.ts';

/** A program of its own that carries out what was asked for a backfill, to be killed by a test. */
const { sourceUrl, storeUrl, targets, backfill } = JSON.parse(process.argv[2] ?? '{}') as WorkerTask;
const source = createPool({ url: sourceUrl, applicationName: 'emend test worker' });
const store = createPool({ url: storeUrl, applicationName: 'emend test worker', settings: mergeSettings });
await carryOutRequests({ source, store }, targets, await readRequests(source, backfill));
await Promise.all([source.end(), store.end()]);
