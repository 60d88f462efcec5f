import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Imported } from '../../src/backfill/import-history.ts';
import type { Explanation } from '../../src/merge/explain-key.ts';
import type { Undone } from '../../src/pipeline/undo.ts';
import { createDatabases } from '../support/databases.ts';
import type { Databases } from '../support/databases.ts';
import { query } from '../support/query.ts';
import { createCli } from '../support/run-cli.ts';
import type { Cli } from '../support/run-cli.ts';

const config = `
import { defineConfig, timeline } from 'emend'
export default defineConfig({
  targets: {
    prices: timeline('prices', { key: ['product'], period: ['valid_from', 'valid_to'], openEnd: null }),
    known: timeline('known', { key: ['product'], period: ['valid_from', 'valid_to'] }),
  },
})
`;

describe('adopt, explain, undo and import on the command line', () => {
  let databases: Databases;
  let cli: Cli;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'emend-cli-'));
    databases = await createDatabases('cli corrections');
    await query(
      databases.storeUrl,
      `create table prices (product text not null, valid_from date not null, valid_to date, price numeric);
       create table known (product text not null, valid_from date not null, valid_to date not null, price numeric);
       insert into prices values ('A', '2020-01-01', null, 4), ('B', '2020-01-01', '2019-01-01', 4);`,
    );
    cli = createCli(config, {
      SOURCE_URL: databases.sourceUrl,
      STORE_URL: databases.storeUrl,
      REDIS_URL: databases.redisUrl,
    });
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('migrate lists what stands in the way of adopting, and changes nothing', async () => {
    const refused = await cli.run(['migrate', '--adopt', 'prices']);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(
      /1 row of public\.prices: the period ends before it begins; first: B, 2020-01-01, 2019-01-01/,
    );
    expect(
      await query(databases.storeUrl, `select nspname from pg_namespace where nspname = 'emend'`),
    ).toEqual([]);
  });

  it('migrate does not adopt without being told to, and says how', async () => {
    await query(databases.storeUrl, `delete from prices where product = 'B'`);
    const refused = await cli.run(['migrate']);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/Run emend migrate --adopt prices/);
    const wrong = await cli.run(['migrate', '--adopt', 'pricez']);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toMatch(/Did you mean prices/);
    expect((await cli.run(['migrate', '--adopt', 'prices'])).code).toBe(0);
  });

  it('explain shows the adopted row and the correction over it; undo takes the correction back', async () => {
    const running = cli.start(['start']);
    await query(
      databases.sourceUrl,
      `insert into corrections.prices (product, valid_from, price, _reason) values ('A', '2021-01-01', 5, 'contract 17')`,
    );
    expect((await cli.run(['wait', '--timeout', '20'])).code).toBe(0);
    const explain = async (...limit: string[]) => {
      const args = ['explain', 'prices', '--key', 'A', '--valid-at', '2021-06-01', ...limit];
      const { corrections, leftOut } = await cli.json<Explanation>(args);
      expect(leftOut).toBe(2 - corrections.length);
      return corrections;
    };
    const before = await explain();
    expect(
      before.map(({ state, columns, _reason }) => [state, columns['price'], columns['valid_to'], _reason]),
    ).toEqual([
      ['stands', '5', null, 'contract 17'],
      ['superseded', '4', null, 'adopted with the table'],
    ]);
    expect(await explain('--limit', '1')).toEqual(before.slice(0, 1));
    const id = before[0]!._id;
    expect((await cli.json<Undone>(['undo', 'prices', id, '--reason', 'typo'])).toldAt).not.toBeNull();
    expect((await cli.json<Undone>(['undo', 'prices', id, '--reason', 'typo'])).toldAt).toBeNull();
    expect((await explain()).map(({ _id, state }) => [_id, state])).toEqual([
      [id, 'undone'],
      ['-1', 'stands'],
    ]);
    expect(await query(databases.sourceUrl, `select request, _reason from corrections._request`)).toEqual([
      { request: 'undo', _reason: 'typo' },
    ]);
    for (const reason of ['', '  ']) {
      const silent = await cli.run(['undo', 'prices', '-1', '--reason', reason]);
      expect([silent.code, silent.stderr]).toEqual([2, expect.stringMatching(/the reason .* is empty/)]);
    }
    expect(await query(databases.sourceUrl, `select request from corrections._request`)).toHaveLength(1);
    const never = await cli.run(['undo', 'prices', '999999', '--reason', 'typo']);
    expect([never.code, never.stderr]).toEqual([2, expect.stringMatching(/prices has no correction 999999/)]);
    running.process.kill('SIGTERM');
    expect((await running.ended).code).toBe(0);
  });

  it('import takes a file in once, and a bad line is named', async () => {
    const file = join(folder, 'known.csv');
    writeFileSync(
      file,
      'known_at,product,valid_from,price\n2024-01-01,A,2020-01-01,4.10\n2024-05-01,A,2022-01-01,4.2x\n',
    );
    const refused = await cli.run(['import', 'known', file, '--known-at', 'known_at']);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/line 3: column price: .* invalid input syntax for type numeric/);
    writeFileSync(
      file,
      'known_at,product,valid_from,price\n2024-01-01,A,2020-01-01,4.10\n2024-05-01,A,2022-01-01,4.20\n',
    );
    const imported = { name: 'import-known-known.csv', rows: 2, times: 2 };
    const command = ['import', 'known', file, '--known-at', 'known_at'];
    expect(await cli.json<Imported>(command)).toEqual({ ...imported, taken: 2 });
    expect(await cli.json<Imported>(command)).toEqual({ ...imported, taken: 0 });
    expect((await cli.run(command)).stdout).toMatch(
      /^nothing was taken: the same file .* as import-known-known\.csv \(2 corrections of known, known at 2 times\)/,
    );
    expect(
      await query(databases.storeUrl, `select price::text from emend.known_at('2023-01-01', '2024-03-01')`),
    ).toEqual([{ price: '4.10' }]);
    const missing = await cli.run(['import', 'known', join(folder, 'nowhere.csv'), '--known-at', 'known_at']);
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringMatching(/nowhere\.csv cannot be read/)]);
  });
});
