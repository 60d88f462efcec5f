import pg from 'pg';
import type { Pool } from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { correct } from '../../src/log/append.ts';
import { migrate } from '../../src/pipeline/migrate.ts';
import { eventually } from '../support/eventually.ts';
import { createDatabases } from '../support/databases.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';
import { batchOf, createStore, logRows, noAbort } from '../support/store.ts';
import { query } from '../support/query.ts';
import { corpusFor, corpusTypes } from '../support/values-corpus.ts';
import type { CorpusColumn } from '../support/values-corpus.ts';

/** What decides how a value is written and read, set to what nobody expects. */
const oddSettings = {
  datestyle: 'SQL, DMY',
  intervalstyle: 'iso_8601',
  timezone: 'Asia/Kathmandu',
  extra_float_digits: '-10',
  bytea_output: 'escape',
  array_nulls: 'off',
  xmloption: 'document',
};

const alterDatabase = Object.entries(oddSettings)
  .map(
    ([name, value]) =>
      `do $$ begin execute format('alter database %I set ${name} = ''${value}''', current_database()); end $$`,
  )
  .join(';\n');

/** Each value of a column in a row of its own; what a column has no value for is null. */
interface Corpus {
  readonly columns: readonly CorpusColumn[];
  readonly ddl: string;
}

async function readCorpus(url: string): Promise<Corpus> {
  const [server] = await query<{ version: number; extensions: string[]; xml: boolean }>(
    url,
    `select current_setting('server_version_num')::int as version,
       array(select name::text from pg_available_extensions where name in ('citext', 'hstore')) as extensions,
       exists (select from pg_config where name = 'CONFIGURE' and setting like '%with-libxml%') as xml`,
  );
  const columns = corpusFor(server!);
  const extensions = server!.extensions.map((name) => `create extension ${name} schema public`);
  return { columns, ddl: [...extensions, corpusTypes].join(';\n') };
}

describe.each([
  { title: 'two databases', queue: 'redis' as const, sameDatabase: false, odd: false },
  { title: 'two databases with odd settings', queue: 'redis' as const, sameDatabase: false, odd: true },
  { title: 'one database, PostgreSQL queue', queue: 'postgres' as const, sameDatabase: true, odd: false },
])('values of every type, $title', ({ title, queue, sameDatabase, odd }) => {
  let install: Install;
  let corpus: Corpus;
  let texts: string;
  let told: string;
  const { targets } = defineConfig({
    targets: {
      held: timeline('public.held', { key: ['id'], period: ['valid_from', 'valid_to'] }),
      facts: facts('public.facts', { key: ['id'] }),
    },
  });
  const allRows = () => Math.max(...corpus.columns.map(({ values }) => values.length));

  beforeAll(async () => {
    corpus = await readCorpus((await createDatabases('values server')).storeUrl);
    texts = corpus.columns.map((_, place) => `c${place}::text`).join(', ');
    const values = corpus.columns.map(({ type }, place) => `c${place} ${type}`).join(', ');
    install = await createInstall(`values ${title}`, {
      ddl: `${odd ? alterDatabase : 'select 1'};
        ${corpus.ddl};
        create table public.held (id integer not null, valid_from date not null, valid_to date not null, ${values});
        create table public.facts (id integer not null, ${values})`,
      queue,
      sameDatabase,
      targets,
    });
    if (odd) {
      await install.source.query(alterDatabase);
      await migrate({ config: install.config, print: false });
    }
    await install.start();
    await writeCorpus(install, corpus);
    await install.wait();
    const { rows } = await install.store.query<{ told: string }>(
      `select max(told_at)::text as told from emend.ledger`,
    );
    told = rows[0]!.told;
  });

  /** What is there, by row and type, as Postgres writes it. */
  async function read(db: Pool, relation: string, where: string): Promise<Record<string, string>> {
    const { rows } = await db.query<Record<string, string | null>>(
      `select id, ${texts} from ${relation} where ${where}`,
    );
    const there: Record<string, string> = {};
    for (const row of rows) {
      corpus.columns.forEach(({ type }, place) => {
        const text = row[`c${place}`];
        if (typeof text === 'string') there[`${row.id} ${type}`] = text;
      });
    }
    return there;
  }
  const logged = (log: 'held' | 'facts') =>
    read(install.source, `corrections.${log}`, `_reason is distinct from 'nothing of it'`);
  const asked = (relation: string, where = 'true') => read(install.store, relation, where);

  it('none is set aside, and none is null in the log', async () => {
    const { rows } = await install.store.query(`select sqlstate, reason from emend.dead_letter`);
    expect(rows).toEqual([]);
    const written = corpus.columns.reduce((sum, { values }) => sum + values.length, 0);
    expect(Object.keys(await logged('held'))).toHaveLength(written);
  });

  it('the target has them as the log has them', async () => {
    expect(await asked('public.held')).toEqual(await logged('held'));
    expect(await asked('public.facts')).toEqual(await logged('facts'));
  });

  it('the functions and views answer with them', async () => {
    const log = await logged('held');
    expect(await asked(`emend.held_at('2026-06-01')`)).toEqual(log);
    expect(await asked('emend.held_as_of()')).toEqual(log);
    expect(await asked('emend.held_periods')).toEqual(log);
    expect(await asked('emend.facts_as_of()')).toEqual(await logged('facts'));
  });

  it('superseded, they are in history and in the answers about then, and what remains of a row has them still', async () => {
    const log = await logged('held');
    await install.source.query(`
      insert into corrections.held (id, valid_from, valid_to, _reason)
      select id, '2026-06-01', '2026-06-02', 'nothing of it' from generate_series(1, ${allRows()}) id`);
    await install.source.query(`
      insert into corrections.facts (id, _reason) select id, 'nothing of it' from generate_series(1, ${allRows()}) id`);
    await install.wait();
    expect(await asked('emend.held_history')).toEqual(log);
    expect(await asked('public.held', `valid_from = '2026-01-01'`)).toEqual(log);
    expect(await asked('public.held', `valid_from = '2026-06-02'`)).toEqual(log);
    expect(await asked('emend.facts_history')).toEqual(await logged('facts'));
    await eventually(async () => {
      expect(await asked(`emend.held_at('2026-06-01', '${told}')`)).toEqual(log);
    });
    expect(await asked(`emend.held_as_of('${told}')`)).toEqual(log);
    expect(await asked(`emend.held_periods_as_of('${told}')`)).toEqual(log);
    expect(await asked(`emend.facts_as_of('${told}')`)).toEqual(await logged('facts'));
  });

  it('what Postgres cannot hold is refused where it is written, and the rows beside it arrive', async () => {
    const column = (type: string) => `c${corpus.columns.findIndex((each) => each.type === type)}`;
    const [text, jsonb] = [column('text'), column('jsonb')];
    const half = '\u{1f600}'.slice(0, 1);
    const writes = [
      { row: { [text]: 'a\0b' }, code: 'correction_invalid' },
      { row: { [text]: half }, code: 'correction_invalid' },
      { row: { [jsonb]: { a: 'a\0b' } }, code: '22P05' },
      { row: { [jsonb]: { a: half } }, code: '22P02' },
    ];
    for (const { row, code } of writes)
      await expect(correct(install.source, targets.facts, { id: 1000, ...row })).rejects.toMatchObject({
        code,
      });
    await correct(install.source, targets.facts, {
      id: 1001,
      [text]: '\u{1f600}',
      [jsonb]: { a: '\u{1f600}' },
    });
    await install.wait();
    expect(await asked('public.facts', 'id >= 1000')).toEqual({
      '1001 text': '\u{1f600}',
      '1001 jsonb': '{"a": "\u{1f600}"}',
    });
  });
});

it('values of every type are the same by whatever way they come: the stream, the sweep, a backfill', async () => {
  const corpus = await readCorpus((await createDatabases('values ways')).storeUrl);
  const names = corpus.columns.map((_, place) => `c${place}`).join(', ');
  const { targets } = defineConfig({ targets: { facts: facts('public.facts', { key: ['id'] }) } });
  const install = await createInstall('values by all ways', {
    ddl: `${alterDatabase}; ${corpus.ddl};
      create table public.facts (id integer not null, ${corpus.columns.map(({ type }, place) => `c${place} ${type}`).join(', ')})`,
    targets,
  });
  const { source, store } = install;
  await source.query(alterDatabase);
  await source.query(
    `select corrections.open_backfill('b', '{facts}', 'a test', 'v1', '{}', '{}', '{"thresholds": {"null_share": 1}}')`,
  );
  const copy = (ids: string, backfill: string) =>
    source.query(
      `insert into corrections.facts (id, _backfill, ${names}) select ${ids}, ${backfill}, ${names} from corrections.facts where id < 100`,
    );
  await writeCorpus(install, corpus, ['facts']);
  await copy('id + 200', `'b'`);
  // what was written until now is in no stream
  await source.query(
    `select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()`,
  );
  await install.start();
  await install.wait();
  await copy('id + 100', 'null');
  await source.query(`select corrections.seal_backfill('b')`);
  await source.query(`select corrections.promote_backfill('b', 'a test', '{}')`);
  const texts = `select id, ${corpus.columns.map((_, place) => `c${place}::text`).join(', ')}`;
  const { rows: written } = await source.query(`${texts} from corrections.facts order by id`);
  await eventually(async () => {
    const { rows } = await store.query(`${texts} from public.facts order by id`);
    expect(rows).toHaveLength(written.length);
    expect(rows).toEqual(written);
  });
});

describe('touching pieces', () => {
  /** Values that are not the same, though for boxes and circles (their area) and paths (their points) `=` says so. */
  const apart = [
    ['box', '(2,1),(0,0)', '(1,2),(0,0)'],
    ['circle', '<(0,0),1>', '<(5,5),1>'],
    ['path', '[(0,0),(1,1)]', '[(0,0),(2,2)]'],
    ['box[]', '{(2,1),(0,0)}', '{(1,2),(0,0)}'],
    ['json', '{"a":1}', '{"a": 1}'],
    ['json[]', '{1}', '{2}'],
    ['xid8', '1', '2'],
  ] as const;
  const joined = [
    ['numeric', '1.0', '1.00'],
    ['box', '(2,1),(0,0)', '(2,1),(0,0)'],
    ['json[]', '{1,NULL}', '{1,NULL}'],
    ['interval', '1 day', '24:00:00'],
    ['timestamptz', '2026-01-01 00:00:00+00', '2026-01-01 01:00:00+01'],
  ] as const;

  it.each([...apart.map((each) => [...each, 2] as const), ...joined.map((each) => [...each, 1] as const)])(
    'of %s, %s and %s, are drawn as so many periods: %i',
    async (type, before, after, count) => {
      const store = await createStore(
        (await createDatabases('touching')).storeUrl,
        `create table public.x (k integer not null, f integer not null, t integer not null, v ${type})`,
        [{ name: 'x', kind: 'timeline', key: ['k'], period: { from: 'f', to: 't', mode: 'override' } }],
      );
      try {
        const rows = [
          { _id: 1, k: 1, f: 1, t: 2, v: before },
          { _id: 2, k: 1, f: 2, t: 3, v: after },
        ];
        await store.handle(batchOf(logRows(store.targets[0]!, rows)), noAbort);
        const periods = await store.pool.query(`select f, t, v::text as v from emend.x_periods order by f`);
        expect(periods.rows).toHaveLength(count);
        expect(periods.rows[0]).toMatchObject({ f: '1', t: count === 1 ? '3' : '2' });
      } finally {
        await store.pool.end();
      }
    },
  );
});

/** As an application writes: in a session of its own, with whatever its database has set but for what the texts here mean. */
async function writeCorpus(
  { config }: Install,
  { columns }: Corpus,
  logs: readonly ('held' | 'facts')[] = ['held', 'facts'],
): Promise<void> {
  const client = new pg.Client({ connectionString: config.source.url });
  await client.connect();
  try {
    await client.query('begin');
    await client.query(`set local array_nulls = on; set local xmloption = content`);
    const rows = Math.max(...columns.map(({ values }) => values.length));
    const names = columns.map((_, place) => `c${place}`).join(', ');
    const values = (first: number) =>
      columns.map(({ type }, place) => `$${first + place}::text::${type}`).join(', ');
    for (let id = 1; id <= rows; id++) {
      const stated = columns.map((column) => column.values[id - 1] ?? null);
      for (const log of logs) {
        const period =
          log === 'held' ? [`, valid_from, valid_to`, `, date '2026-01-01', 'infinity'`] : ['', ''];
        await client.query(
          `insert into corrections.${log} (id${period[0]}, ${names}) values ($1${period[1]}, ${values(2)})`,
          [id, ...stated],
        );
      }
    }
    await client.query('commit');
  } finally {
    await client.end();
  }
}
