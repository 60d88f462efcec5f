import type { Pool } from 'pg';
import { describe, expect, it } from 'vitest';
import { facts } from '../../src/config/define-config.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { createSweep } from '../support/sweep.ts';

const ddl = `create table public.orders (id integer primary key, amount integer not null)`;
const targets = { orders: facts('public.orders', { key: ['id'] }) };
const merged = 100_000;

/** Rows of the log that were read, as far as sessions that are gone have told. */
async function rowsRead(source: Pool): Promise<number> {
  const { rows } = await source.query<{ rows: string }>(
    `select (seq_tup_read + idx_tup_fetch + (select sum(idx_tup_read) from pg_stat_user_indexes i where i.relid = t.relid))::text as rows
     from pg_stat_user_tables t
     where t.relid = 'corrections.orders'::regclass`,
  );
  return Number(rows[0]!.rows);
}

describe('wait, over a log of which all but the last rows are merged,', () => {
  let install: Install;
  const timedOut = (rows: string) =>
    expect(waitUntilMerged({ config: install.config, timeoutMs: 200 })).rejects.toMatchObject({
      code: 'timed_out',
      message: expect.stringMatching(new RegExp(`^${rows} not merged yet`)),
    });

  /** As it is when the sweep has been along the log once. */
  async function installMerged(name: string): Promise<Install> {
    install = await createInstall(name, { ddl, targets });
    await install.source.query(
      `insert into corrections.orders (id, amount, _nonce) select i, i, i from generate_series(1, ${merged}) as i`,
    );
    await install.store.query(
      `insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at)
       select i, 'orders', now(), i, now() from generate_series(1, ${merged}) as i`,
    );
    await install.source.query('vacuum analyze corrections.orders');
    const sweep = await createSweep(install);
    await eventually(async () => expect(await sweep.tick()).toMatchObject({ isComplete: true, missing: 0 }), {
      timeoutMs: 30_000,
    });
    await sweep.leave();
    return install;
  }

  it('reads what is behind the mark of the sweep, and not the whole log', async () => {
    const { source } = await installMerged('wait cost');
    // what the sweep has read is told when its session is gone
    await eventually(async () => expect(await rowsRead(source)).toBeGreaterThan(merged));
    const before = await rowsRead(source);
    expect(await waitUntilMerged({ config: install.config, timeoutMs: 200 })).toMatchObject({ rows: 0 });
    await source.query(`insert into corrections.orders (id, amount) values (1, 1), (2, 2), (3, 3)`);
    await timedOut('3 rows are');
    await eventually(async () => expect(await rowsRead(source)).toBeGreaterThan(before));
    expect((await rowsRead(source)) - before).toBeLessThan(merged / 10);
  });

  it('reads all of it when the source went back behind its mark, or has lost what was merged last', async () => {
    const { source, store } = await installMerged('wait restored');
    const { rows } = await store.query<{ below: string }>(`select below_xid::text as below from emend.sweep`);
    await store.query(`update emend.sweep set below_xid = (below_xid::text::bigint + 1000)::text::xid8`);
    await source.query(`insert into corrections.orders (id, amount) values (1, 1)`);
    await timedOut('1 row is');

    // the same source, whose transactions have come as far again
    const xid = await source.query<{ next: string }>(
      `select pg_snapshot_xmin(pg_current_snapshot())::text as next`,
    );
    await store.query(`update emend.sweep set below_xid = $1::text::xid8`, [xid.rows[0]!.next]);
    await store.query(
      `insert into emend.ledger_recent (_id, target, told_at, _nonce, _recorded_at) values ($1, 'orders', now(), 5, now())`,
      [merged + 1_000],
    );
    await timedOut('1 row is');
    await store.query(`delete from emend.ledger_recent where _id > ${merged}`);
    await store.query(`update emend.sweep set below_xid = $1::text::xid8`, [rows[0]!.below]);
    await timedOut('1 row is');
  });
});
