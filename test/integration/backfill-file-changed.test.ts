import { rmSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { describeRun } from '../../src/cli/describe-backfill.ts';
import { showBackfill } from '../../src/pipeline/backfill-report.ts';
import { september, setUpBackfillFiles } from '../support/backfill-file.ts';

describe('a backfill file', () => {
  const { install, inFolder, write, named, run, ts, price } = setUpBackfillFiles('backfill file changed');

  it('that was changed under its name is refused before anything is done, whatever had become of it', async () => {
    const path = ts(`rows: () => [${september('R3', 120)}]`);
    await run(path, { promote: true });
    const state = () => install.source.query(`select * from corrections._request order by _id`);
    const before = (await state()).rows;
    write(
      `${named()}.ts`,
      `import 'emend'\nexport default { targets: ['fares'], reason: 'x', logicVersion: 'v1', rows: () => [${september('R3', 1)}] }`,
    );
    await expect(run(path, { promote: true })).rejects.toMatchObject({
      code: 'backfill_refused',
      message: expect.stringContaining('has been changed since') as string,
    });
    expect((await state()).rows).toEqual(before);
    expect(await price('R3')).toBe('120');
  });

  describe('with rows in a file', () => {
    const rows =
      'route,valid_from,valid_to,price\nF1,2026-09-01,2026-10-01,120\nF2,2026-09-01,2026-10-01,130\n';
    const requests = async () =>
      (await install.source.query(`select * from corrections._request order by _id`)).rows;

    it.each<[string, string]>([
      ['has another value', rows.replace('130', '131')],
      ['has a row more', `${rows}F3,2026-09-01,2026-10-01,140\n`],
      ['has a row less', rows.slice(0, rows.indexOf('F2'))],
      ['has its rows in another order', 'route,valid_from,valid_to,price\nF2,2026-09-01,2026-10-01,130\nF1,2026-09-01,2026-10-01,120\n'],
      ['holds no row', 'route,valid_from,valid_to,price\n'],
      ['cannot be read', `${rows}"F3,2026`],
      ['is no text', `${rows}\0`],
    ])('that %s since it was loaded is refused, before the promote and after: the old rows are not promoted in silence', async (_case, changed) => {
      const path = ts(`rows: { file: 'changed.csv' }`);
      const refused = async (promote: boolean) => {
        write('changed.csv', changed);
        const before = await requests();
        await expect(run(path, { promote })).rejects.toMatchObject({
          code: 'backfill_refused',
          message: expect.stringMatching(/^changed.csv has been changed since backfill b-\d+ was loaded from it; nothing/) as string,
          remedy: expect.stringMatching(/Put it back.*another name/) as string,
        });
        expect(await requests()).toEqual(before);
        write('changed.csv', rows);
      };
      write('changed.csv', rows);
      await run(path);
      await refused(false);
      await refused(true);
      expect(await run(path, { promote: true })).toMatchObject({ state: 'promoted', done: ['promoted'], rowsGone: [] });
      await refused(true);
      expect((await run(path)).done).toEqual([]);
    }); // prettier-ignore

    it('of which a line was set aside is refused when that is mended later: it would not be loaded any more', async () => {
      const bad = rows.replace('130', 'much');
      write('bad.csv', bad);
      const path = ts(`rows: { file: 'bad.csv', skipBad: 'left-out-${named()}.ndjson' }`);
      expect(await run(path)).toMatchObject({ state: 'checked', loaded: [{ written: 1, skipped: 1 }] });
      write('bad.csv', rows);
      await expect(run(path, { promote: true })).rejects.toThrow(/bad.csv has been changed since/);
      write('bad.csv', bad);
      expect(await run(path, { promote: true })).toMatchObject({ state: 'promoted', problem: null });
    });

    it('that is gone since it was loaded is said, and stands in the way of nothing: its rows are loaded', async () => {
      write('once.csv', rows);
      const path = ts(`rows: { file: 'once.csv' }`);
      await run(path);
      rmSync(inFolder('once.csv'));
      expect(await run(path)).toMatchObject({ state: 'checked', done: [], rowsGone: ['once.csv'] });
      expect(await run(path, { promote: true })).toMatchObject({ state: 'promoted', problem: null });
      expect(await price('F2')).toBe('130');
      const later = await run(path, { promote: true });
      expect(later).toMatchObject({ state: 'promoted', done: [], problem: null });
      expect(describeRun(later)).toMatch(/^once.csv is not there any more: what was loaded of it stays$/m);
    });
  });

  describe('of which rows have been loaded when the rest is refused', () => {
    const first = `{ target: 'fares', rows: () => [${september('R9', 190)}] }`;
    const second = `{ target: 'fares', rows: () => [${september('R10', 200)}] }`;
    const halfLoaded = async () => {
      const missing = `{ target: 'fares', rows: { file: 'gone.csv' } }`;
      await expect(run(ts(`rows: [${first}, ${missing}]`))).rejects.toThrow(/there is no file/);
      expect(await logged()).toEqual(['R9']);
    };
    const logged = async () =>
      (
        await install.source.query(`select route from corrections.fares where _backfill = $1 order by _id`, [
          named(),
        ])
      ).rows.map(({ route }) => String(route));
    // a module of another name: this process has the old one
    const mend = (rows: string) =>
      write(
        `${named()}.mjs`,
        `export default { targets: ['fares'], reason: 'mended', logicVersion: 'v2', boundary: { fares: { to: '2026-10-01' } }, rows: ${rows} }`,
      );

    it('can be mended and run under its name: what is loaded is not loaded twice, and what it stated before stays on record', async () => {
      await halfLoaded();
      const path = mend(`[${first}, ${second}]`);
      expect(await run(path)).toMatchObject({ state: 'checked', done: ['loaded', 'sealed', 'checked'] });
      expect(await logged()).toEqual(['R9', 'R10']);
      const { reason, logicVersion, boundary, origin } = await showBackfill(install.config, named());
      expect({ reason, logicVersion, boundary }).toEqual({
        reason: 'mended',
        logicVersion: 'v2',
        boundary: { fares: { to: '2026-10-01' } },
      });
      expect(origin).toMatchObject({
        file: `${named()}.mjs`,
        mended: [{ reason: 'contract 17', logic_version: 'v1', origin: { file: `${named()}.ts` } }],
      });
      // the workers check by what it states now
      const { rows } = await install.store.query<{ boundary: string; reason: string }>(
        `select boundary::text as boundary, reason from emend.backfill where name = $1`,
        [named()],
      );
      expect(rows[0]).toEqual({ boundary: '{"fares": {"to": "2026-10-01"}}', reason: 'mended' });
      expect((await run(path)).done).toEqual([]);
    });

    it.each<[string, string, RegExp]>([
      ['gives other rows for what is loaded', `[${first.replace('190', '191')}, ${second}]`, /has other content/],
      ['gives more rows for it', `[${first.replace(' }]', ' }, ' + september('R8', 1) + ']')}, ${second}]`, /has other content/],
      ['leaves out what is loaded', `[{ target: 'fares', rows: { sql: "select 'R8' as route" } }]`, /rows-1|another select/],
      ['has it under another name', `[{ target: 'fares', rows: { file: 'b.csv' } }]`, /rows of rows-1 have been loaded/],
    ])('is refused where the changed file %s: no row of it is sealed', async (_case, rows, message) => {
      await halfLoaded();
      const path = mend(rows);
      await expect(run(path)).rejects.toMatchObject({
        code: 'backfill_refused',
        message: expect.stringMatching(message) as string,
        remedy: expect.stringContaining('abandon') as string,
      });
      expect(await logged()).toEqual(['R9']);
      const { state, origin } = await showBackfill(install.config, named());
      expect({ state, origin }).toMatchObject({ state: 'open', origin: { file: `${named()}.ts` } });
      expect(origin).not.toHaveProperty('mended');
    }); // prettier-ignore
  });
});
