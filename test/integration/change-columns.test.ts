import { describe, expect, it } from 'vitest';
import { timeline } from '../../src/config/define-config.ts';
import { EmendError } from '../../src/errors.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

/** One key whose later correction left a row of history, and whose earlier one came second and left a shadow. */
async function createItems(name: string): Promise<Install> {
  const install = await createInstall(name, {
    ddl: `create table public.items (
      id integer not null, valid_from date not null, valid_to date not null, price numeric(10, 2), note text, revision integer not null,
      constraint noted check (note <> '' or price > 0)
    )`,
    targets: {
      items: timeline('public.items', {
        key: ['id'],
        period: ['valid_from', 'valid_to'],
        version: 'revision',
      }),
    },
  });
  await writeAndMerge(
    install,
    `insert into corrections.items (id, valid_from, valid_to, price, note, revision)
     values (1, '2026-01-01', '2026-06-01', 4, 'a', 2)`,
    `insert into corrections.items (id, valid_from, valid_to, price, note, revision)
     values (1, '2026-02-01', '2026-03-01', 5, 'b', 3), (1, '2026-05-01', '2026-07-01', 6, 'c', 1)`,
  );
  return install;
}

/** As an operator does it: everything is merged before the workers stop. */
async function writeAndMerge(install: Install, ...statements: string[]): Promise<void> {
  const pipeline = await install.start();
  for (const sql of statements) {
    await install.source.query(sql);
    await install.wait();
  }
  await pipeline.stop();
}

async function refusal({ config }: Install): Promise<string> {
  const refused: unknown = await migrate({ config, print: false }).catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: 'migration_destructive' });
  return (refused as EmendError).remedy;
}

/** The statements that a refusal names, one a table. */
function statementsOf(remedy: string, action: RegExp): string[] {
  return (remedy.match(/alter table [^;]+;/g) ?? []).filter((sql) => action.test(sql));
}

const found = async ({ config }: Install) =>
  (await verify(config, { target: 'items' })).map((each) => each.found);

describe('a column of a target', () => {
  it('is dropped by the statements that migrate names, and history answers without it', async () => {
    const install = await createItems('drop column');
    const { config, source, store } = install;
    await expect(store.query('alter table public.items drop column note')).rejects.toThrow(
      /other objects depend/,
    );
    await store.query('alter table public.items drop column note cascade');

    const forget = statementsOf(await refusal(install), /drop column/);
    expect(forget).toEqual(
      expect.arrayContaining(
        ['history', 'shadow'].map((suffix) => `alter table "emend"."items_${suffix}" drop column "note";`),
      ),
    );
    for (const sql of forget) await store.query(sql);
    const [ofLog, ...others] = statementsOf(await refusal(install), /drop column/);
    expect([ofLog, others]).toEqual(['alter table "corrections"."items" drop column "note";', []]);
    await source.query(ofLog!);

    await migrate({ config, print: false });
    expect((await migrate({ config, print: false })).statements).toEqual([]);
    await writeAndMerge(
      install,
      `insert into corrections.items (id, valid_from, valid_to, price, revision) values (1, '2026-02-10', '2026-02-20', 7, 4)`,
    );
    expect(await found(install)).toEqual([{}]);
    const { rows } = await store.query(
      `select price from emend.items_as_of((select min(_known_from) from emend.items_told))`,
    );
    expect(rows).toEqual([{ price: '4.00' }]);
  });

  it('is retyped by the statements that migrate names, in every table that holds it', async () => {
    const install = await createItems('retype column');
    const { config, source, store } = install;
    await expect(
      store.query('alter table public.items alter column price type numeric(12, 4)'),
    ).rejects.toThrow(/used by a view/);
    await store.query('drop view emend.items_told, emend.items_periods cascade');
    await store.query('alter table public.items alter column price type numeric(12, 4)');

    const tables: string[] = [];
    for (let step = 0; step < 10; step += 1) {
      const outcome = await migrate({ config, print: false }).catch((error: unknown) => error);
      if (!(outcome instanceof EmendError)) break;
      const [sql] = statementsOf(outcome.remedy, /type numeric\(12,4\)/);
      tables.push(/"(?:items_)?(\w+)" alter/.exec(sql!)![1]!);
      await (sql!.includes('"corrections"') ? source : store).query(sql!);
    }
    expect(tables).toEqual(expect.arrayContaining(['history', 'shadow']));
    expect(tables.at(-1)).toBe('items');

    await writeAndMerge(
      install,
      `insert into corrections.items (id, valid_from, valid_to, price, revision) values (1, '2026-02-10', '2026-02-20', 7.1234, 4)`,
    );
    expect(await found(install)).toEqual([{}]);
    const { rows } = await store.query(`select price from emend.items_at('2026-02-15')`);
    expect(rows).toEqual([{ price: '7.1234' }]);
  });

  it('that was dropped and put back by hand leaves no target without its questions', async () => {
    const { config, store } = await createItems('put back');
    await store.query('drop view emend.items_told, emend.items_periods cascade');
    await migrate({ config, print: false });
    const { rows } = await store.query(`select price from emend.items_at('2026-02-15')`);
    expect(rows).toEqual([{ price: '5.00' }]);
  });
});
