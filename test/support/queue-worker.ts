import { pino } from 'pino';
import type { QueueHome } from '../../src/queue/home.ts';
import { openQueue } from '../../src/queue/queue.ts';
import type { Tuning } from '../../src/queue/tuning.ts';

/** A worker process whose handler tells its parent which batch it got, and then never ends. */
interface Task {
  readonly home: QueueHome;
  readonly prefix: string;
  readonly tuning: Partial<Tuning>;
}

const { home, prefix, tuning } = JSON.parse(process.argv[2] ?? '{}') as Task;
const queue = await openQueue(home, { prefix, tuning, log: pino({ level: 'silent' }), role: 'test' });
queue.startWorker(
  (batch) => {
    process.send?.(batch.id);
    return new Promise(() => {});
  },
  { concurrency: 1 },
);
