import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Batch, LogRows } from '../../src/change/batch.ts';
import { referTo } from '../../src/change/refer.ts';
import { facts } from '../../src/config/define-config.ts';
import { startRedis } from '../../src/dev/redis.ts';
import type { LocalRedis } from '../../src/dev/redis.ts';
import { withRowsOfLog } from '../../src/pipeline/referred-rows.ts';
import { readRows } from '../../src/sweep/log-pages.ts';
import { eventually, holds } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { readForms } from '../support/queue-forms.ts';
import { startSourceServer } from '../support/source-server.ts';
import { silentLog } from '../support/store.ts';

const ddl = `
  create table public.orders (id integer primary key, amount numeric, note text, at timestamptz);
  create table public.notes (id integer primary key, note text)`;
const targets = {
  orders: facts('public.orders', { key: ['id'] }),
  notes: facts('public.notes', { key: ['id'] }),
};
const maxQueueBytes = 1_048_576;

/** Wide rows, hard to compress, with values that a careless way would change, a thousand of them a transaction. */
async function write({ source }: Install, first: number, last: number): Promise<void> {
  for (let start = first; start <= last; start += 1_000) {
    await source.query(
      `insert into corrections.orders (id, amount, note, at)
       select i, (i || '.12345678901234567890123456789')::numeric,
              case i % 4 when 0 then null when 1 then '' else E'\\\\N "Ä"\n' || (select string_agg(md5(i::text || n), '') from generate_series(1, 8) n) end,
              case i % 3 when 0 then 'infinity'::timestamptz else '0044-03-15 12:00:00.000001+00 BC' end
       from generate_series($1::integer, least($1::integer + 999, $2::integer)) as i`,
      [String(start), String(last)],
    );
  }
}

const digest = `count(*)::text as rows, sum(hashtextextended(o::text, 0)::numeric)::text as texts`;

async function contents(install: Install): Promise<{ written: unknown; merged: unknown }> {
  const [written, merged] = await Promise.all([
    install.source.query(`select ${digest} from (select id, amount, note, at from corrections.orders) as o`),
    install.store.query(`select ${digest} from (select id, amount, note, at from public.orders) as o`),
  ]);
  return { written: written.rows[0], merged: merged.rows[0] };
}

async function untilMerged(install: Install, timeoutMs = 30_000): Promise<void> {
  await eventually(
    async () => {
      const { written, merged } = await contents(install);
      expect(merged).toEqual(written);
    },
    { timeoutMs },
  );
}

describe.each(['redis', 'postgres'] as const)('a full queue in %s', (queue) => {
  let dir: string;
  let redis: LocalRedis;
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), `emend-test-${process.pid}-redis-`));
    redis = await startRedis({ dir });
  });
  afterAll(async () => {
    await redis.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  it('holds references, and rows again once it has drained; either way they are merged as they were written', async () => {
    const install = await createInstall(`full ${queue}`, {
      ddl,
      targets,
      queue,
      redisUrl: redis.url,
      maxQueueBytes,
    });
    const reader = await install.start('reader');
    await write(install, 1, 20_000);
    await eventually(async () => {
      const { byValue, byReference } = await readForms(install);
      expect(byValue + byReference).toBeGreaterThanOrEqual(20);
      expect(byReference).toBeGreaterThan(byValue);
    });
    const worker = await install.start('worker');
    await untilMerged(install);
    await install.wait();
    await worker.stop();
    await reader.stop();
    await install.start('reader');
    let next = 100_000;
    await eventually(async () => {
      await write(install, next, (next += 1) - 1);
      expect((await readForms(install)).byValue).toBeGreaterThan(0);
    });
    await install.start('worker');
    await untilMerged(install);
  });

  it('with many jobs before it is spared small ones: what would wait anyway waits for company', async () => {
    const install = await createInstall(`busy ${queue}`, { ddl, targets, queue, redisUrl: redis.url });
    const reader = await install.start('reader');
    const writeOneByOne = async (first: number, count: number) => {
      for (let id = first; id < first + count; id += 1) {
        await write(install, id, id);
        await sleep(3);
      }
    };
    const jobs = async () => (await readForms(install)).byValue;
    await eventually(async () => {
      await writeOneByOne((await jobs()) * 1_000 + 1, 20);
      expect(await jobs()).toBeGreaterThan(16);
    });
    const before = await jobs();
    await writeOneByOne(1_000_000, 300);
    // up to here, and no further: other databases of the server are written all the time
    const { rows: written } = await install.source.query<{ lsn: string }>(
      'select pg_current_wal_lsn()::text as lsn',
    );
    await eventually(async () => {
      const { rows } = await install.source.query<{ behind: string }>(
        `select ($1::pg_lsn - confirmed_flush_lsn)::text as behind from pg_replication_slots where database = current_database()`,
        [written[0]!.lsn],
      );
      expect(Number(rows[0]!.behind)).toBeLessThan(1_000);
    });
    expect((await jobs()) - before).toBeLessThan(100);
    await reader.stop();
    await install.start();
    await untilMerged(install);
  });
});

it(
  'a row that is too large for a queue goes by reference, though nothing waits',
  { timeout: 100_000 },
  async () => {
    const install = await createInstall('large row', { ddl, targets, queue: 'postgres' });
    await install.start('reader');
    await write(install, 1, 1);
    await install.source.query(
      `insert into corrections.orders (id, note) values (2, repeat('x', 33 * 1024 * 1024))`,
    );
    await eventually(async () => expect(await readForms(install)).toEqual({ byValue: 1, byReference: 1 }), {
      timeoutMs: 30_000,
    });
    await install.start('worker');
    await untilMerged(install, 60_000);
  },
);

describe('rows by reference', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('by reference', { ddl, targets });
  });

  function handler(): { handled: Batch[]; handle: ReturnType<typeof withRowsOfLog> } {
    const handled: Batch[] = [];
    const handle = withRowsOfLog({ source: install.source, log: silentLog }, async (batch) => {
      handled.push(batch);
    });
    return { handled, handle };
  }

  const signal = new AbortController().signal;

  async function rowsOf(client: Parameters<typeof readRows>[0], ids: readonly string[]): Promise<LogRows> {
    const { columns, rows } = await readRows(client, 'orders', ids.map(BigInt));
    const texts = ids.map((id) => rows.get(BigInt(id))!);
    return {
      target: 'orders',
      columns,
      values: columns.map((column) => texts.map((row) => row[column] ?? null)),
    };
  }

  function batchOf(part: LogRows): Batch {
    return {
      id: 'b-1',
      parts: [part],
      rows: part.values[0]!.length,
      bytes: 0,
      endLsn: 1n,
      committedAtMs: 1,
    };
  }

  it('are those of their transaction alone, where another one wrote between them', async () => {
    const [one, other] = [await install.source.connect(), await install.source.connect()];
    try {
      await one.query('begin');
      await other.query('begin');
      const ids: string[] = [];
      for (let id = 200_000; id < 200_020; id += 1) {
        const insert = `insert into corrections.orders (id, note) values ($1::integer, 'x') returning _id`;
        const { rows } = await one.query<{ _id: string }>(insert, [String(id)]);
        ids.push(rows[0]!._id);
        await other.query(insert, [String(id + 1_000)]);
      }
      await one.query('commit');
      await other.query('commit');
      const batch = batchOf(await rowsOf(install.source, ids));
      const { handled, handle } = handler();
      await handle(referTo(batch), signal);
      expect(handled).toEqual([{ ...batch, bytes: expect.any(Number) as number }]);
    } finally {
      one.release();
      other.release();
    }
  });

  it('wait for a transaction that others cannot see yet, and are given up where the log has others under their numbers', async () => {
    const client = await install.source.connect();
    const { handled, handle } = handler();
    try {
      await client.query('begin');
      const { rows } = await client.query<{ _id: string }>(
        `insert into corrections.orders (id, note) values (300000, 'mine') returning _id`,
      );
      const batch = referTo(batchOf(await rowsOf(client, [rows[0]!._id])));
      await expect(handle(batch, signal)).rejects.toMatchObject({ code: 'source_unavailable' });
      await client.query('commit');
      await handle(batch, signal);
      expect(handled).toHaveLength(1);
      await client.query(`set session_replication_role = replica`);
      await client.query(`update corrections.orders set _nonce = _nonce + 1 where _id = $1`, [rows[0]!._id]);
      // until then, transactions that others have open in the cluster may be what hides the row
      await eventually(() => handle(batch, signal));
      expect(handled).toHaveLength(1);
    } finally {
      client.release(true);
    }
  });
});

it('a row that was taken out of the log does not keep back the others of its batch: the sweep brings them', async () => {
  const install = await createInstall('by reference gone', {
    ddl,
    targets,
    queue: 'postgres',
    maxQueueBytes,
  });
  const reader = await install.start('reader');
  await write(install, 1, 10_000);
  await eventually(async () => expect((await readForms(install)).byReference).toBeGreaterThan(2));
  await reader.stop();
  const { byReference } = await readForms(install);
  const owner = await install.source.connect();
  await owner.query('set session_replication_role = replica');
  // one of each batch: those that went by value bring it all the same, and no others
  await owner.query('delete from corrections.orders where id % 1000 = 500');
  owner.release(true);
  await install.start('worker');
  await eventually(
    async () => {
      const { rows } = await install.store.query(
        `select (count(*) filter (where id % 1000 <> 500))::text as others, (count(*) filter (where id % 1000 = 500))::text as gone
         from public.orders`,
      );
      expect(rows[0].others).toBe('9990');
      expect(Number(rows[0].gone)).toBeLessThanOrEqual(10 - byReference);
    },
    { timeoutMs: 30_000 },
  );
});

it('while the source is away, references wait; when it is back, they are merged', async () => {
  const server = await startSourceServer();
  const install = await createInstall('by reference away', {
    ddl,
    targets,
    queue: 'postgres',
    maxQueueBytes,
    sourceUrl: server.url,
  });
  const reader = await install.start('reader');
  await write(install, 1, 10_000);
  await eventually(async () => expect((await readForms(install)).byReference).toBeGreaterThan(2));
  await reader.stop();
  const { byReference } = await readForms(install);
  await server.stop();
  await install.start('worker');
  await eventually(async () => expect((await readForms(install)).byValue).toBe(0));
  await holds(async () => expect((await readForms(install)).byReference).toBe(byReference), {
    forMs: 2_000,
  });
  await server.restart();
  await untilMerged(install);
});
