import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { startRedis } from '../../src/dev/redis.ts';
import type { LocalRedis } from '../../src/dev/redis.ts';
import { createBuiltCli, ensureBuilt } from '../faults/built-cli.ts';
import type { BuiltCli } from '../faults/built-cli.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { watchSizes } from './watch-sizes.ts';
import type { Sizes } from './watch-sizes.ts';

/** Seconds by default; `npm run test:size` is the size that is promised. `EMEND_SIZE_ROWS` is another backlog. */
const isFull = process.env['EMEND_SIZE'] === 'full';
const rowsOfTransaction = isFull ? 1_000_000 : 40_000;
// enough for a worker to be at it while samples are taken
const rowsOfBacklog = Number(process.env['EMEND_SIZE_ROWS'] ?? (isFull ? 10_000_000 : 200_000));
const maxBytes = isFull ? 268_435_456 : 8_388_608;
const samples = isFull ? 1_000 : 30;
const timeoutMs = isFull ? 3_600_000 : 120_000;

const ddl = `
  create table public.orders (id integer primary key, amount numeric not null, note text not null);
  create table public.notes (id integer primary key, note text)`;
const targets = {
  orders: facts('public.orders', { key: ['id'] }),
  notes: facts('public.notes', { key: ['id'] }),
};
const configText = `
  import { defineConfig, facts } from '${new URL('../../dist/index.js', import.meta.url).href}';
  export default defineConfig({
    queue: { maxBytes: ${maxBytes} },
    targets: {
      orders: facts('public.orders', { key: ['id'] }),
      notes: facts('public.notes', { key: ['id'] }),
    },
  });`;

describe(`a transaction of ${rowsOfTransaction} rows, and ${rowsOfBacklog} rows behind stopped workers`, () => {
  let dir: string;
  let redis: LocalRedis;
  let install: Install;
  let cli: BuiltCli;
  let reader: ChildProcess;
  const children: ChildProcess[] = [];

  beforeAll(async () => {
    await ensureBuilt();
    dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-redis-`));
    redis = await startRedis({ dir });
    install = await createInstall('size', { ddl, targets, redisUrl: redis.url });
    cli = createBuiltCli(configText, {
      SOURCE_URL: install.config.source.url,
      STORE_URL: install.config.store.url,
      REDIS_URL: redis.url,
    });
    reader = await start('reader');
  }, 120_000);

  afterAll(async () => {
    for (const child of children) child.kill('SIGKILL');
    await redis.stop();
    cli.remove();
    rmSync(dir, { recursive: true, force: true });
  });

  async function start(role: 'reader' | 'worker'): Promise<ChildProcess> {
    const program = fileURLToPath(new URL('../../dist/cli/cli.js', import.meta.url));
    const child = spawn(process.execPath, [program, role], {
      cwd: cli.dir,
      env: cli.env,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    children.push(child);
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    await eventually(() => {
      if (!said.includes(role === 'reader' ? 'reading the source' : 'emend is running'))
        throw new Error(`the ${role} does not come up: ${said}`);
    });
    return child;
  }

  async function write(first: number, rows: number): Promise<void> {
    await install.source.query(
      `insert into corrections.orders (id, amount, note)
       select i, i * 0.01, md5(i::text) || md5((i + 1)::text) || md5((i + 2)::text)
       from generate_series($1::integer, $1::integer + $2::integer - 1) as i`,
      [String(first), String(rows)],
    );
  }

  /** The queue has all that was committed: the source was told so. */
  async function confirmed(): Promise<void> {
    const { rows } = await install.source.query<{ lsn: string }>(`select pg_current_wal_lsn()::text as lsn`);
    await eventually(
      async () => {
        const { rows: slots } = await install.source.query<{ behind: string }>(
          `select (confirmed_flush_lsn < $1::pg_lsn)::text as behind
           from pg_replication_slots where database = current_database()`,
          [rows[0]!.lsn],
        );
        expect(slots).toEqual([{ behind: 'false' }]);
      },
      { timeoutMs },
    );
  }

  async function countMerged(): Promise<number> {
    const { rows } = await install.store.query<{ rows: string }>(
      `select coalesce(sum(rows), 0)::text as rows from emend.merge where target = 'orders'`,
    );
    return Number(rows[0]!.rows);
  }

  /** Writes, waits until the queue has it, and returns how large reader and Redis were meanwhile. */
  async function sizesWhile(work: () => Promise<void>): Promise<Sizes> {
    const watch = watchSizes({ pid: reader.pid!, redisUrl: redis.url, source: install.source });
    const startedAt = performance.now();
    await work();
    const writtenMs = performance.now() - startedAt;
    await confirmed();
    const sizes = await watch.end();
    report({ writtenMs, queuedMs: performance.now() - startedAt, ...sizes });
    return sizes;
  }

  function expectBounded(sizes: Sizes): void {
    // the small form lasts a second: the middle of that is the reader at its start, and no steady state
    if (isFull) expect(sizes.steadyMb).toBeLessThan(200);
    expect(sizes.peakMb).toBeLessThan(300);
    expect(sizes.redisMb).toBeLessThan(maxBytes / 1e6);
    expect(sizes.walsenders).toBe(1);
  }

  it(
    'one large transaction is queued in bounded memory, over one connection',
    async () => {
      expectBounded(await sizesWhile(() => write(1, rowsOfTransaction)));
    },
    timeoutMs,
  );

  it(
    'so is a backlog, of transactions that are cut and of such that are not',
    async () => {
      expectBounded(
        await sizesWhile(async () => {
          const end = rowsOfTransaction + rowsOfBacklog;
          const shapes = [10_000, 1_000, 200];
          for (let first = rowsOfTransaction + 1, turn = 0; first <= end; turn += 1) {
            const rows = Math.min(shapes[turn % shapes.length]!, end - first + 1);
            await write(first, rows);
            first += rows;
          }
        }),
      );
    },
    timeoutMs,
  );

  it(
    'while it drains, a correction of another target is visible within a second',
    async () => {
      const worker = await start('worker');
      await eventually(async () => expect(await countMerged()).toBeGreaterThan(0));
      const startedAt = performance.now();
      const mergedBefore = await countMerged();
      const latencies: number[] = [];
      for (let tries = 0; tries < samples; tries += 1) {
        const latency = await latencyOfOne(tries);
        // of a queue that has drained, it says nothing
        if ((await countMerged()) === rowsOfTransaction + rowsOfBacklog) break;
        latencies.push(latency);
        await sleep(20);
      }
      expect(latencies.length).toBeGreaterThanOrEqual(isFull ? samples : 10);
      const drained = (await countMerged()) - mergedBefore;
      latencies.sort((one, other) => one - other);
      const p99 = latencies[Math.ceil(0.99 * latencies.length) - 1]!;
      report({
        p50Ms: latencies[latencies.length >> 1],
        p99Ms: p99,
        longestMs: latencies.at(-1),
        drainedPerSecond: (1_000 * drained) / (performance.now() - startedAt),
      });
      // other test files run beside the small form: behind its backlog a correction would be later than this, too
      expect(p99).toBeLessThan(isFull ? 1_000 : 3_000);
      if (!isFull) await drain();
      worker.kill('SIGTERM');
      await once(worker, 'exit');
    },
    timeoutMs,
  );

  async function latencyOfOne(id: number): Promise<number> {
    await install.source.query(`insert into corrections.notes (id, note) values ($1, 'x')`, [String(id)]);
    const committedAt = performance.now();
    const isVisible = async (): Promise<boolean> =>
      (await install.store.query(`select from public.notes where id = $1`, [String(id)])).rowCount === 1;
    while (!(await isVisible())) await sleep(5);
    return performance.now() - committedAt;
  }

  async function drain(): Promise<void> {
    await eventually(
      async () => {
        const { rows } = await install.store.query<{ rows: string; sum: string }>(
          `select count(*)::text as rows, sum(amount)::text as sum from public.orders`,
        );
        const { rows: written } = await install.source.query(
          `select count(*)::text as rows, sum(amount)::text as sum from corrections.orders`,
        );
        expect(rows).toEqual(written);
      },
      { timeoutMs },
    );
  }
});

/** The figures of docs/performance.md. */
function report(figures: object): void {
  if (!isFull && process.env['EMEND_SIZE'] === undefined) return;
  const rounded = Object.entries({ ...figures, load: loadavg()[0] }).map(
    ([name, value]) => `${name} ${Math.round(Number(value))}`,
  );
  process.stdout.write(`${rounded.join(', ')}\n`);
}
