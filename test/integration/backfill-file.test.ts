import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { showBackfill } from '../../src/pipeline/backfill-report.ts';
import { abandon } from '../../src/pipeline/backfill-requests.ts';
import { september, setUpBackfillFiles } from '../support/backfill-file.ts';

describe('a backfill file', () => {
  const { install, inFolder, write, fresh, named, run, ts, price } = setUpBackfillFiles('backfill file');
  const failing = (checks: readonly { name: string; verdict: string }[]) =>
    checks.filter(({ verdict }) => verdict === 'fail').map(({ name }) => name);

  it('is run to its checks, and to its promote where that is asked; the same file again changes nothing', async () => {
    const path = ts(`
      boundary: { fares: { from: '2026-09-01', to: '2026-10-01' } },
      rows: async function* () { yield ${september('R1', 120)}; yield ${september('R2', 130)} }`);
    const first = await run(path);
    expect(first).toMatchObject({ backfill: named(), state: 'checked', problem: null });
    expect(first.done).toEqual(['opened', 'loaded', 'sealed', 'checked']);
    expect(first.diff).toEqual([
      { target: 'fares', keys: 2, added: 0, removed: 0, changed: 2, columns: { price: 2 } },
    ]);
    expect(await price('R1')).toBe('100');
    expect((await run(path)).done).toEqual([]);
    const promoted = await run(path, { promote: true, reason: 'looks right' });
    expect(promoted).toMatchObject({ state: 'promoted', problem: null, done: ['promoted'] });
    expect(await price('R1')).toBe('120');
    expect(await run(path, { promote: true })).toMatchObject({ state: 'promoted', problem: null, done: [] });
    const { events, origin } = await showBackfill(install.config, named());
    expect(events.at(-1)).toMatchObject({ state: 'promoted', reason: 'looks right' });
    expect(origin).toEqual({ file: `${named()}.ts`, checksum: expect.stringMatching(/^[0-9a-f]{64}$/) });
  });

  it('that died while it was loaded goes on where it was, with each row once', async () => {
    const gate = write('gate', '');
    const path = ts(`
      rows: async function* () {
        const { existsSync } = await import('node:fs')
        for (let n = 1; n <= 12000; n++) {
          if (n === 7000 && existsSync('${gate}')) throw new Error('killed')
          yield { route: 'K' + n, valid_from: '2026-09-01', price: n }
        }
      }`);
    await expect(run(path)).rejects.toThrow('killed');
    rmSync(gate);
    const second = await run(path);
    expect(second).toMatchObject({ state: 'checked', done: ['loaded', 'sealed', 'checked'] });
    expect(second.loaded).toMatchObject([{ read: 12_000, written: 7_000 }]);
    const { rows } = await install.source.query(
      `select count(*), count(distinct route) as routes from corrections.fares where _backfill = $1`,
      [named()],
    );
    expect(rows).toEqual([{ count: '12000', routes: '12000' }]);
  });

  it('in SQL takes its rows from the store, with its checks, samples and what may fail in the header', async () => {
    write('samples.csv', 'route,valid_at,price\nR5,2026-09-15,150\nR5,2026-10-15,100\nR6,2026-09-15,149\n');
    const path = fresh(
      'sql',
      `-- target: fares
-- reason: fares of September were too low by half
-- logic-version: v2
-- from: 2026-09-01
-- to: 2026-10-01
-- where: route in ('R5', 'R6')
-- on: store
-- samples: samples.csv
-- check.none_above_140: select * from public.fares
--   where price > 140;
-- accept.none_above_140: that was an old rule

-- every route that has one
select route, date '2026-09-01' as valid_from, date '2026-10-01' as valid_to, price * 1.5 as price
from fares_now()
where route in ('R5', 'R6');
`,
    );
    await install.store.query(
      `create or replace function public.fares_now() returns setof public.fares language sql stable as $$ select * from public.fares $$`,
    );
    const blocked = await run(path, { promote: true });
    expect(blocked).toMatchObject({ state: 'checked', loaded: [{ read: 2 }] });
    expect(failing(blocked.checks)).toEqual(['none_above_140', 'samples_differing']);
    expect(blocked.problem).toMatch(/samples_differing/);
    expect(await price('R5')).toBe('100');

    write('samples.csv', 'route,valid_at,price\nR5,2026-09-15,150\nR6,2026-10-15,100\n');
    await expect(run(path)).rejects.toThrow(/or its samples \(samples.csv\), has been changed/);
    const again = fresh(
      'sql',
      `-- target: fares\n-- reason: again\n-- logic-version: v3\n-- samples: samples.csv\n-- check.none_above_140: select from public.fares where price > 140\n-- accept.none_above_140: that was an old rule\nselect route, '2026-09-01'::date as valid_from, '2026-10-01'::date as valid_to, 150 as price from corrections.fares where route = 'R5' and _backfill is null`,
    );
    const promoted = await run(again, { promote: true });
    expect(promoted).toMatchObject({ state: 'promoted', problem: null });
    expect(promoted.checks.find(({ name }) => name === 'none_above_140')).toMatchObject({
      verdict: 'fail',
      accepted: 'that was an old rule',
    });
    expect(await price('R5')).toBe('150');
  });

  it('of several targets loads each from where it says', async () => {
    write('sales.csv', 'id,sold_at,route\n1,2026-09-02T10:00:00Z,R7\n2,2026-09-03T10:00:00Z,R7\n');
    const path = fresh(
      'mjs',
      `import { defineBackfill } from 'emend'
       export default defineBackfill({
         targets: ['fares', 'sales'], reason: 'late', logicVersion: 'v1',
         rows: [
           { target: 'fares', rows: { sql: "select 'R7' as route, date '2026-09-01' as valid_from, 170 as price", on: 'source' } },
           { target: 'sales', rows: { file: 'sales.csv' } },
         ],
         checks: { samples: [
           { target: 'fares', key: { route: 'R7' }, validAt: '2026-09-15', values: { price: 170 } },
           { target: 'sales', key: { id: 2 }, values: { route: 'R7' } },
           { target: 'sales', key: { id: 3 }, values: null },
         ] },
       })`,
    );
    const ran = await run(path, { promote: true });
    expect(ran).toMatchObject({ state: 'promoted', loaded: [{ read: 1 }, { read: 2 }] });
    expect(
      ran.checks.filter(({ name }) => name === 'samples_differing').map(({ verdict }) => verdict),
    ).toEqual(['pass', 'pass']);
  });

  it('takes samples from a list as from a file, and with key and values apart', async () => {
    const samples = [
      `{ route: 'S1', valid_at: '2026-09-15', price: 120 }`,
      `{ route: 'S1', valid_at: '2026-10-15', _op: 'retract' }`,
      `{ key: { route: 'S1' }, validAt: '2026-08-15', values: null }`,
    ];
    const rows = `rows: async () => [${september('S1', 120)}]`;
    const right = await run(ts(`${rows}, checks: { samples: [${samples.join(', ')}] }`));
    const found = ({ checks }: Awaited<ReturnType<typeof run>>) =>
      checks.find(({ name }) => name === 'samples_differing');
    expect(found(right)).toMatchObject({ verdict: 'pass' });
    const wrong = samples.map((sample) => sample.replace('120', '121').replace('10-15', '09-16').replace('08-15', '09-17'));
    expect(found(await run(ts(`${rows}, checks: { samples: [${wrong.join(', ')}] }`)))).toMatchObject({ figure: '3' });
  }); // prettier-ignore

  it('in SQL accepts a check of one column by its name', async () => {
    const text = (more: string) =>
      `-- target: fares\n-- reason: withdrawn\n-- logic-version: v1\n${more}\nselect 'R1' as route, date '2026-02-01' as valid_from, date '2026-03-01' as valid_to, null::numeric as price`;
    const blocked = await run(fresh('sql', text('')), { promote: true });
    expect(failing(blocked.checks)).toEqual(['null_share:price']);
    const accepted = await run(fresh('sql', text('-- accept.null_share:price: nobody knows: not yet\n')), { promote: true });
    expect(accepted).toMatchObject({ state: 'promoted', problem: null });
    expect(accepted.checks.find(({ name }) => name === 'null_share:price')).toMatchObject({
      verdict: 'fail',
      accepted: 'nobody knows: not yet',
    });
  }); // prettier-ignore

  it('keeps whether its raw input can be read, and the check tells when it cannot', async () => {
    const raw = 'route,price\nR8,1\n';
    write('raw.csv', raw);
    const checksum = createHash('sha256').update(raw).digest('hex');
    const rows = `rows: () => [${september('R8', 180)}]`;
    const readable = await run(ts(`origin: { input: 'export of the vendor', files: ['raw.csv'] }, ${rows}`));
    expect(readable.checks.find(({ name }) => name === 'raw_input')).toMatchObject({ verdict: 'pass' });
    expect((await showBackfill(install.config, named())).origin).toMatchObject({
      input: 'export of the vendor',
      raw_input: [{ file: 'raw.csv', checksum }],
    });
    const first = inFolder(`${named()}.ts`);
    write('raw.csv', 'another export');
    const changed = await run(first, { promote: true });
    expect(changed).toMatchObject({ state: 'checked' });
    expect(changed.problem).toMatch(/could not be replayed: raw.csv/);
    write('raw.csv', raw);
    expect(await run(first, { promote: true })).toMatchObject({ state: 'promoted', problem: null });

    const gone = await run(ts(`origin: { files: ['raw.csv', 'gone.csv'] }, ${rows}`), { promote: true });
    expect(gone).toMatchObject({ state: 'checked' });
    expect(gone.problem).toMatch(/raw_input of fares: 1 of 2 files can be read/);
    expect(gone.checks.find(({ name }) => name === 'raw_input')?.examples).toEqual([
      'gone.csv could not be read when the backfill was opened',
    ]);
    const unsaid = await run(ts(rows));
    expect(unsaid.checks.find(({ name }) => name === 'raw_input')).toMatchObject({ verdict: 'note' });
  });

  it('that is promoted stays so, whatever was asked for and refused: run again it does not say that it is abandoned', async () => {
    const path = ts(`rows: () => [${september('R9', 191)}]`);
    await run(path, { promote: true });
    const refused = await abandon(install.config, named(), { reason: 'too late', timeoutMs: 20_000 });
    expect(refused).toMatchObject({ state: 'promoted', problem: 'nothing to abandon: it is promoted' });
    expect(await run(path)).toMatchObject({ state: 'promoted', done: [], problem: null });
  });

  it('that was abandoned stays so: run again it says so, and it cannot be promoted', async () => {
    const path = ts(`rows: () => [${september('R9', 190)}]`);
    await run(path);
    await abandon(install.config, named(), { reason: 'not after all', timeoutMs: 20_000 });
    expect(await run(path)).toMatchObject({ state: 'abandoned', done: [], problem: null });
    expect(await run(path, { promote: true })).toMatchObject({
      state: 'abandoned',
      done: [],
      problem: expect.stringContaining('final') as string,
    });
  });
});
