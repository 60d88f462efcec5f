import fc from 'fast-check';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Target } from '../../src/change/target.ts';
import { pendingMigrations } from '../../src/db/migrations.ts';
import { createPool } from '../../src/db/pool.ts';
import { withClient } from '../../src/db/transaction.ts';
import { rebuildTarget } from '../../src/verify/rebuild.ts';
import { verifyTarget } from '../../src/verify/verify.ts';
import { createDatabases } from '../support/databases.ts';
import { foldFacts, foldOverride, foldUntilNext } from '../support/model.ts';
import type { Correction } from '../support/model.ts';
import { apply, migrateLog } from '../support/source.ts';
import { createStore, logRows } from '../support/store.ts';
import type { StoreUnderTest } from '../support/store.ts';
import { programs } from './programs.ts';
import { axes, endForms, logRowOf, runProgram } from './run-program.ts';
import type { Axis } from './run-program.ts';

const seconds = Number(process.env.EMEND_LAWS_SECONDS ?? 30) / 2;
const seed = Number(process.env.EMEND_LAWS_SEED ?? Math.floor(Math.random() * 2 ** 31));

const rebuilding = { swap: true, reason: 'a law', logic: 'test', graceMs: 0, limit: 3 };

type Mode = 'override' | 'until_next' | 'facts';
const cases: readonly { name: string; axis: Axis; mode: Mode; versioned: boolean }[] = [
  { name: 'override', axis: axes[1]!, mode: 'override', versioned: false },
  { name: 'override, closed ends, own version', axis: endForms[1]!, mode: 'override', versioned: true },
  { name: 'until next', axis: endForms[0]!, mode: 'until_next', versioned: false },
  { name: 'until next, own version', axis: axes[4]!, mode: 'until_next', versioned: true },
  { name: 'facts', axis: axes[0]!, mode: 'facts', versioned: false },
  { name: 'facts, own version', axis: axes[0]!, mode: 'facts', versioned: true },
];

describe.each(cases)('verify agrees with the model: $name', ({ name, axis, mode, versioned }) => {
  let source: Pool;
  let store: StoreUnderTest;
  let target: Target;

  beforeAll(async () => {
    const databases = await createDatabases(`laws verify ${name}`);
    store = await openStore(databases.storeUrl, axis, mode, versioned);
    target = store.targets[0]!;
    source = createPool({ url: databases.sourceUrl, applicationName: 'emend test' });
    await withClient(source, async (client) => apply(client, await pendingMigrations(client, 'source')));
    await migrateLog({ source, store: store.pool }, target);
    await source.query('alter table corrections.x disable trigger user');
  });
  afterAll(async () => {
    await store?.pool.end();
    await source?.end();
  });

  const writeLog = async (corrections: readonly Correction[]) => {
    await source.query('truncate corrections.x');
    const { columns, values } = logRows(
      target,
      corrections.map((correction) => logRowOf(axis, correction)),
    );
    const rows = values[0]!.map((_, place) =>
      Object.fromEntries(columns.map((column, index) => [column, values[index]![place]])),
    );
    await source.query(
      `insert into corrections.x (${columns.join(', ')}) select ${columns.join(', ')} from json_populate_recordset(null::corrections.x, $1)`,
      [JSON.stringify(rows)],
    );
  };

  const verify = (repair = false) =>
    verifyTarget({ source, store: store.pool, target, keys: null, repair, graceMs: 0, limit: 3 });

  it(
    `finds nothing after any program, and any row that is missing; a rebuild puts right whatever is not (seed ${seed})`,
    { timeout: seconds * 1000 + 60_000 },
    async () => {
      let runs = 0;
      const fold = { override: foldOverride, until_next: foldUntilNext, facts: foldFacts }[mode];
      const ops = [
        { op: 'upsert' as const, weight: 4 },
        { op: 'retract' as const, weight: 1 },
        ...(mode === 'until_next' ? [{ op: 'withdraw' as const, weight: 1 }] : []),
      ];
      await fc.assert(
        fc.asyncProperty(programs({ ops, versioned }), fc.nat(), async (program, choice) => {
          await runProgram(store, axis, fold, program);
          await writeLog(program.corrections);
          const clean = await verify();
          expect([clean.found, clean.differences, clean.corrections], 'after the program').toEqual([
            {},
            [],
            program.corrections.length,
          ]);

          const damaged = await loseOneRow(choice);
          expect((await verify()).found, `without a row of ${damaged}`).toEqual({ missing: 1 });
          const mended = await verify(true);
          expect([mended.found, mended.repaired], `with the row of ${damaged} put back`).toEqual([{}, 1]);

          const before = await content();
          await damageMany(choice);
          const rebuilt = await rebuildTarget({ ...rebuilding, target, source, store: store.pool });
          expect([await content(), rebuilt.leftAlone], 'rebuilt').toEqual([before, 0]);
          runs += 1;
        }),
        {
          seed,
          numRuns: 1_000_000,
          interruptAfterTimeLimit: (seconds * 1000) / cases.length,
          markInterruptAsFailure: false,
        },
      );
      expect(runs, 'programs that came to their end').toBeGreaterThan(0);
    },
  );

  const tables = ['public.x', 'emend.x_history', 'emend.x_tombstone', 'emend.x_shadow'];

  const content = () =>
    Promise.all(
      tables.map(async (table) => {
        const { rows } = await store.pool.query<{ row: string }>(`select t::text as row from ${table} t`);
        return rows.map(({ row }) => row).sort();
      }),
    );

  /** All is gone; or only the target; or values, times of belief and a part of the rows. */
  async function damageMany(choice: number): Promise<void> {
    const damages = [
      `truncate ${tables.join(', ')}`,
      `truncate public.x`,
      `update public.x set v = 'by hand'; update emend.x_history set _known_from = _known_from - interval '1 hour';
       delete from emend.x_shadow where _version % 2 = 0; delete from emend.x_tombstone`,
    ];
    await store.pool.query(damages[choice % damages.length]!);
  }

  /** Deletes one row, any, of what the store has. */
  async function loseOneRow(choice: number): Promise<string> {
    const { rows } = await store.pool.query<{ name: string; row: string }>(
      tables.map((table) => `select '${table}' as name, ctid::text as row from ${table}`).join(' union all '),
    );
    const lost = rows[choice % rows.length]!;
    await store.pool.query(`delete from ${lost.name} where ctid = $1::tid`, [lost.row]);
    return lost.name;
  }
});

function openStore(url: string, axis: Axis, mode: Mode, versioned: boolean): Promise<StoreUnderTest> {
  const version = versioned ? 'ver' : null;
  const ver = versioned ? ', ver integer not null' : '';
  if (mode === 'facts') {
    return createStore(url, `create table public.x (k text primary key, v text${ver})`, [
      { name: 'x', kind: 'facts', key: ['k'], version },
    ]);
  }
  const end = axis.ends?.openEnd === null ? '' : ' not null';
  const period = { from: 'f', to: 't', mode, openEnd: axis.ends?.openEnd, closed: axis.ends?.closed };
  return createStore(
    url,
    `create table public.x (k text not null, f ${axis.type} not null, t ${axis.type}${end}, v text${ver})`,
    [{ name: 'x', kind: 'timeline', key: ['k'], period, version }],
  );
}
