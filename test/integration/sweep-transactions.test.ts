import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { createMerge } from '../../src/merge/merge.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { startSourceServer } from '../support/source-server.ts';
import { noAbort, silentLog } from '../support/store.ts';
import { createSweep } from '../support/sweep.ts';
import type { SweepUnderTest } from '../support/sweep.ts';

const ddl = `
  create table public.orders (id integer primary key, amount integer not null);
  create table public.lines (id integer primary key, amount integer not null);`;
const targets = {
  orders: facts('public.orders', { key: ['id'] }),
  lines: facts('public.lines', { key: ['id'] }),
};

let install: Install;
let nextId = 1;
beforeAll(async () => {
  // alone in its cluster: a transaction that another test leaves open would hold back what the sweep may look at
  const server = await startSourceServer({}, afterAll);
  install = await createInstall('sweep transactions', { ddl, targets, sourceUrl: server.url });
});

/** One transaction of so many rows in each log; returns the `_id`s. */
async function write(orders: number, lines = 0): Promise<string[]> {
  const first = nextId;
  nextId += orders + lines;
  const { rows } = await install.source.query<{ id: string }>(
    `with
     of_orders as (
       insert into corrections.orders (id, amount)
       select i, i from generate_series($1::integer, $1::integer + $2::integer - 1) as i
       returning _id
     ),
     of_lines as (
       insert into corrections.lines (id, amount)
       select i, i from generate_series($1::integer, $1::integer + $3::integer - 1) as i
       returning _id
     )
     select _id::text as id from of_orders
     union all
     select _id::text from of_lines`,
    [String(first), String(orders), String(lines)],
  );
  return rows.map(({ id }) => id);
}

function idsOf(sweep: SweepUnderTest): string[] {
  return sweep.batches.flatMap(({ parts }) =>
    parts.flatMap(({ columns, values }) => values[columns.indexOf('_id')] as string[]),
  );
}

const sorted = (ids: readonly string[]): string[] =>
  ids.toSorted((one, other) => Number(one) - Number(other));

/** The sweep may look at them: whatever began before them has ended, in all of the cluster. */
async function untilBelowHorizon(ids: readonly string[]): Promise<void> {
  await eventually(async () => {
    const { rows } = await install.source.query<{ below: string }>(
      `select bool_and(_xid < pg_snapshot_xmin(pg_current_snapshot())) as below
       from corrections.orders
       where _id = any ($1::bigint[])`,
      [ids],
    );
    expect(rows).toEqual([{ below: 't' }]);
  });
}

/** Ticks until every row of these is on its queue. */
async function sweepUntil(sweep: SweepUnderTest, ids: readonly string[]): Promise<void> {
  await eventually(async () => {
    await sweep.tick();
    expect(idsOf(sweep)).toEqual(expect.arrayContaining([...ids]));
  });
}

async function mergeAll(sweep: SweepUnderTest): Promise<void> {
  const handle = await createMerge({ pool: install.store, targets: install.targets, log: silentLog });
  for (const batch of sweep.batches.splice(0)) await handle(batch, noAbort);
}

describe('what comes back is what the writer wrote', () => {
  it('a transaction of 300 rows in two logs comes back as one batch, between others', async () => {
    const sweep = await createSweep(install, { pageRows: 70, pagesPerRound: 1 });
    const ids = [await write(200, 100), await write(1), await write(800, 50), await write(2)];
    await sweepUntil(sweep, ids.flat());
    const holding = sweep.batches.filter(({ parts }) =>
      parts.some(({ columns, values }) =>
        values[columns.indexOf('_id')]!.some((id) => ids[0]!.includes(id!)),
      ),
    );
    expect(holding).toHaveLength(1);
    expect(sorted(idsOf(sweep))).toEqual(sorted(ids.flat()));
    expect(Math.max(...sweep.batches.map(({ rows }) => rows))).toBeLessThanOrEqual(1_000);
    await mergeAll(sweep);
  });

  it('a transaction larger than what is remembered at a time comes back in pieces, all of it', async () => {
    const sweep = await createSweep(install, { pageRows: 100, maxMissing: 500 });
    const ids = await write(2_300);
    const seen: string[] = [];
    await eventually(async () => {
      await sweep.tick();
      seen.push(...idsOf(sweep));
      await mergeAll(sweep);
      expect(sorted(seen)).toEqual(sorted(ids));
    });
  });
});

describe('the order of ids is not the order of commits', () => {
  it('a row with a lower id that is committed after higher ones were merged is found', async () => {
    const sweep = await createSweep(install);
    const late = await install.source.connect();
    await late.query('begin');
    const { rows } = await late.query<{ id: string }>(
      `insert into corrections.orders (id, amount) values ($1::integer, 1) returning _id::text as id`,
      [String(nextId++)],
    );
    const higher = await write(3);
    await sweep.tick();
    await sweep.tick();
    expect(idsOf(sweep)).not.toContain(rows[0]!.id);
    await late.query('commit');
    late.release();
    await sweepUntil(sweep, [rows[0]!.id, ...higher]);
    await mergeAll(sweep);
  });

  it('rows that were rolled back hold nothing up', async () => {
    const sweep = await createSweep(install);
    const client = await install.source.connect();
    await client.query('begin');
    await client.query(`insert into corrections.orders (id, amount) values (1, 1)`);
    await client.query('rollback');
    const { rows: xids } = await client.query<{ xid: string }>(`select pg_current_xact_id()::text as xid`);
    client.release();
    await eventually(async () => {
      await sweep.tick();
      const { rows } = await install.store.query<{ passed: string }>(
        `select bool_and(below_xid > $1::xid8)::text as passed from emend.sweep`,
        [xids[0]!.xid],
      );
      expect(rows).toEqual([{ passed: 'true' }]);
    });
    expect(sweep.batches).toEqual([]);
  });
});

describe('it does not do again what is done, or being done', () => {
  it('a row that was set aside is not enqueued again, and does not hold the mark', async () => {
    const sweep = await createSweep(install);
    const [id] = await write(1);
    const { rows } = await install.source.query<{ row: string }>(
      `select to_jsonb(o) as row from corrections.orders o where _id = $1`,
      [id],
    );
    await install.store.query(
      `insert into emend.dead_letter (_id, target, log_row, sqlstate, reason) values ($1::bigint, 'orders', $2, '22003', 'of a test')`,
      [id, rows[0]!.row],
    );
    const after = await write(1);
    await sweepUntil(sweep, after);
    expect(idsOf(sweep)).toEqual(after);
    await mergeAll(sweep);
    await eventually(async () => {
      expect(await sweep.tick()).toMatchObject({ missing: 0, isComplete: true });
    });
  });

  it('rows that committed just now are left to the stream', async () => {
    const sweep = await createSweep(install, { graceMs: 60_000 });
    await eventually(async () => expect(await sweep.tick()).toMatchObject({ isComplete: true }));
    await write(5);
    for (let round = 0; round < 3; round += 1) await sweep.tick();
    expect(sweep.batches).toEqual([]);
    // until jobs are known to be lost
    sweep.queue.epoch = 'another';
    await eventually(async () => {
      await sweep.tick();
      expect(sweep.batches.reduce((sum, { rows }) => sum + rows, 0)).toBe(5);
    });
    await mergeAll(sweep);
  });

  it('while jobs wait, missing rows are taken to be among them, for a while', async () => {
    const sweep = await createSweep(install, { patienceMs: 300 });
    await sweep.tick();
    sweep.queue.waiting = 1;
    const ids = await write(3);
    await eventually(async () => expect(await sweep.tick()).toMatchObject({ missing: 3, enqueued: 0 }));
    await sweepUntil(sweep, ids);
    expect(idsOf(sweep)).toEqual(ids);
    await mergeAll(sweep);
  });

  it('while many jobs wait it looks rarely, so that workers have the store; at once where jobs were lost, or are its own', async () => {
    const sweep = await createSweep(install, { patienceMs: 60_000, backlogRoundMs: 60_000 });
    await eventually(async () => expect(await sweep.tick()).toMatchObject({ isComplete: true, missing: 0 }));
    sweep.queue.waiting = 20;
    const ids = await write(3);
    await untilBelowHorizon(ids);
    expect(await sweep.tick()).toMatchObject({ missing: 3, isBacklog: true, goesOn: false });
    expect(await sweep.tick()).toBeUndefined();
    sweep.queue.epoch = 'another';
    await eventually(async () => {
      await sweep.tick();
      expect(idsOf(sweep)).toEqual(ids);
    });
    // twenty jobs wait still, and what is missing is among those that it has just made
    await eventually(async () =>
      expect(await sweep.tick()).toMatchObject({ missing: 3, isBacklog: false, enqueued: 0 }),
    );
    expect(await sweep.tick()).toBeDefined();
    await mergeAll(sweep);
  });

  it('the first sweep of a store does not double a backlog, and takes nothing for being on the queue once that is gone', async () => {
    await install.store.query('update emend.sweep_round set epoch = null');
    const sweep = await createSweep(install, { patienceMs: 60_000 });
    sweep.queue.waiting = 20;
    const ids = await write(3);
    await untilBelowHorizon(ids);
    expect(await sweep.tick()).toMatchObject({ missing: 3, isBacklog: true, enqueued: 0 });
    sweep.queue.waiting = 1;
    await sweepUntil(sweep, ids);
    await mergeAll(sweep);
  });

  it('what is merged behind thousands of rows that are stuck is noticed', async () => {
    const sweep = await createSweep(install);
    const ids = await write(6_000);
    await sweepUntil(sweep, ids);
    const last = sweep.batches.at(-1)!;
    const handle = await createMerge({ pool: install.store, targets: install.targets, log: silentLog });
    await handle(last, noAbort);
    sweep.queue.waiting = 1;
    await eventually(async () => expect(await sweep.tick()).toMatchObject({ missing: 6_000 - last.rows }));
    // and so is what is merged in front of them
    await handle(sweep.batches[0]!, noAbort);
    await eventually(async () =>
      expect(await sweep.tick()).toMatchObject({ missing: 6_000 - last.rows - sweep.batches[0]!.rows }),
    );
    await mergeAll(sweep);
    await eventually(async () => expect(await sweep.tick()).toMatchObject({ missing: 0 }));
  });

  it('a new leader goes on from the mark, and compares nothing below it', async () => {
    const first = await createSweep(install);
    await write(50);
    await eventually(async () => {
      await first.tick();
      await mergeAll(first);
      expect(await first.tick()).toMatchObject({ missing: 0, isComplete: true });
    });
    await first.leave();
    const second = await createSweep(install);
    const ids = await write(2);
    let compared = 0;
    await eventually(async () => {
      compared += (await second.tick())?.compared ?? 0;
      expect(idsOf(second)).toEqual(ids);
    });
    expect(compared).toBeLessThan(50);
    await mergeAll(second);
  });
});
