import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import { LogicalReplicationService, PgoutputPlugin } from 'pg-logical-replication';

interface Row {
  readonly id: string;
  readonly payment_id: string;
  readonly paid_on: string;
  readonly amount: string;
}

const { SOURCE_URL = '', STORE_URL = '', REDIS_URL = '', SLOT = '' } = process.env;
const jobsAtATime = 50;
const rowsPerCall = 500;

pg.types.setTypeParser(pg.types.builtins.DATE, String);
const store = new pg.Pool({ connectionString: STORE_URL, max: 20 });
const connection = () => new Redis(REDIS_URL, { maxRetriesPerRequest: null });
const queue = new Queue<Row>(SLOT, { connection: connection() });

let done = 0;
const worker = new Worker<Row>(
  SLOT,
  async ({ data }) => {
    await store.query(
      `insert into public.payments as p (payment_id, paid_on, amount, version) values ($1, $2, $3, $4)
       on conflict (payment_id) do update
       set paid_on = excluded.paid_on, amount = excluded.amount, version = excluded.version
       where p.version < excluded.version`,
      [data.payment_id, data.paid_on, data.amount, data.id],
    );
    done += 1;
  },
  { connection: connection(), concurrency: jobsAtATime, removeOnComplete: { count: 0 } },
);
worker.on('error', stop);
worker.on('failed', (_job, error) => stop(error));

let waiting: Row[] = [];
async function add(): Promise<void> {
  const rows = waiting;
  waiting = [];
  await queue.addBulk(rows.map((data) => ({ name: 'row', data })));
}

const reader = new LogicalReplicationService(
  { connectionString: SOURCE_URL },
  { acknowledge: { auto: true, timeoutSeconds: 10 }, flowControl: { enabled: true } },
);
reader.on('data', async (_lsn: string, message: { tag: string; new?: Row }) => {
  if (message.tag === 'insert') waiting.push(message.new!);
  if (message.tag === 'commit' || waiting.length >= rowsPerCall) await add();
});
reader.on('error', stop);
reader.on('start', () => console.log('ready'));
reader.subscribe(new PgoutputPlugin({ protoVersion: 1, publicationNames: ['bench'] }), SLOT).catch(stop);

let told = 0;
setInterval(() => {
  if (done === told) return;
  told = done;
  console.log(`done ${done}`);
}, 5);

function stop(error: unknown): void {
  console.error(error);
  process.exit(1);
}
