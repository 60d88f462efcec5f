/**
 * The demo: a correction written in an application's transaction is in the analytics store a moment later, split and closed
 * rightly, with what was believed before kept. On real data: which currency was legal tender where, as 34 successive releases
 * of Unicode CLDR stated it, each correcting the ones before.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { correct, createEmend, defineConfig, retract } from 'emend';
import type { Emend } from 'emend';
import { startServices } from 'emend/dev';
import type { Services } from 'emend/dev';
import pg from 'pg';
import { createDemoDatabases } from './databases.ts';
import type { DemoDatabases } from './databases.ts';
import config from './emend.config.ts';
import {
  corrections,
  correctionsFile,
  expectedPeriods,
  periodText,
  questions,
  releases,
  stories,
} from './data.ts';
import type { Correction, Key, Values } from './data.ts';
import { printStory, progress, say } from './print.ts';

const stay = process.argv.includes('--stay');

/** What differs from the data: the demo ends with 1 and says which row. */
class Mismatch extends Error {}

const folder = mkdtempSync(join(tmpdir(), 'emend-demo-'));
const started = performance.now();
let services: Services | undefined;
let databases: DemoDatabases | undefined;
let exitCode = 0;
try {
  services = await startServices({ dir: folder, redis: 'if-present' });
  for (const note of services.notes) say(note);
  databases = await createDemoDatabases(services);
  await run(databases, services.redisUrl);
} catch (error) {
  exitCode = 1;
  say(error instanceof Mismatch ? `\nDifferent from the data: ${error.message}` : describe(error));
} finally {
  await databases?.drop().catch((error: unknown) => say(describe(error)));
  await services?.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(exitCode);

async function run({ sourceUrl, storeUrl }: DemoDatabases, redisUrl: string | undefined): Promise<void> {
  const emend = createEmend(
    defineConfig({
      ...config,
      source: { url: sourceUrl },
      store: { url: storeUrl },
      queue: redisUrl ? { redis: redisUrl } : {},
    }),
    {},
  );
  const source = new pg.Pool({ connectionString: sourceUrl, max: 2 });
  const store = new pg.Pool({
    connectionString: storeUrl,
    max: 2,
    types: { getTypeParser: () => (text: string) => text },
  });
  try {
    await createTables(store);
    await emend.migrate();
    const pipeline = await emend.start();
    try {
      await playReleases(emend, source, store);
      await askHistory(emend, store);
      say(`\nEverything equals the data (${((performance.now() - started) / 1000).toFixed(1)} s).`);
      if (stay) await stayUntilInterrupted(sourceUrl, storeUrl);
    } finally {
      await pipeline.stop();
    }
  } finally {
    await Promise.all([source.end(), store.end()]);
  }
}

async function createTables(store: pg.Pool): Promise<void> {
  for (const table of ['tender', 'tender_history']) {
    await store.query(`
      create table public.${table} (
        region text not null, currency text not null, valid_from date not null, valid_to date not null,
        tender boolean, tz text, to_tz text,
        primary key (region, currency, valid_from)
      )`);
  }
}

/** Each release's corrections in one transaction of the application; after each, the store has exactly its timeline. */
async function playReleases(emend: Emend, source: pg.Pool, store: pg.Pool): Promise<void> {
  say(`Writing ${corrections.length} corrections of ${releases.length} releases, one transaction each:`);
  for (const [place, { release }] of releases.entries()) {
    const rows = corrections.filter((correction) => correction.release === release);
    await writeRelease(source, rows);
    await emend.wait({ timeoutMs: 30_000 });
    await comparePeriods(store, release);
    progress(
      place + 1,
      releases.length,
      `release ${release}: ${rows.length} ${rows.length === 1 ? 'correction' : 'corrections'}, periods equal`,
    );
  }
}

async function writeRelease(source: pg.Pool, rows: readonly Correction[]): Promise<void> {
  const client = await source.connect();
  try {
    await client.query('begin');
    for (const run of runsOfOneOp(rows)) {
      const write = run[0]!.op === 'upsert' ? correct : retract;
      await write(client, config.targets.tender, run.map(logRow), { reason: `CLDR ${run[0]!.release}` });
    }
    await client.query('commit');
  } finally {
    client.release();
  }
}

/** A later correction beats an earlier one, so their order is kept. */
function runsOfOneOp(rows: readonly Correction[]): Correction[][] {
  const runs: Correction[][] = [];
  for (const row of rows) {
    if (runs.at(-1)?.[0]?.op === row.op) runs.at(-1)!.push(row);
    else runs.push([row]);
  }
  return runs;
}

function logRow({ op, key, valid_from, valid_to, values }: Correction): Record<string, unknown> {
  const period = { valid_from: valid_from ?? '-infinity', valid_to: valid_to ?? 'infinity' };
  return { ...key, ...period, ...(op === 'upsert' ? values : {}) };
}

async function comparePeriods(store: pg.Pool, release: string): Promise<void> {
  const { rows } = await store.query<Record<string, string | null>>(`select * from emend.tender_periods`);
  const found = rows
    .map((row) =>
      periodText([
        row.region!,
        row.currency!,
        row.valid_from!,
        row.valid_to!,
        flag(row.tender),
        row.tz ?? null,
        row.to_tz ?? null,
      ]),
    )
    .sort();
  const expected = expectedPeriods(release);
  const missing = expected.find((text) => !found.includes(text));
  const extra = found.find((text) => !expected.includes(text));
  if (missing !== undefined) throw new Mismatch(`release ${release}: the store lacks the period ${missing}`);
  if (extra !== undefined)
    throw new Mismatch(`release ${release}: the store has a period of its own: ${extra}`);
}

/** The same releases with their true dates: what would have been answered then. */
async function askHistory(emend: Emend, store: pg.Pool): Promise<void> {
  const file = { knownAt: 'released_at', ignore: ['seq', 'release'], openStart: true };
  const { rows, times } = await emend.importHistory('tender_history', correctionsFile, file);
  say(`\nImported the same ${rows} corrections with the ${times} dates on which they became known.`);
  for (const { q, key, valid_at, known_at, answer } of questions) {
    compareAnswer(`question ${q}`, await ask(store, key, valid_at, known_at), answer);
  }
  say(
    `All ${questions.length} questions "what held on …, as known on …" have the right answer. Some stories:`,
  );
  for (const story of stories) {
    const told = [];
    for (const belief of story.beliefs) {
      const answer = await ask(store, story.key, story.valid_at, belief.known_from);
      compareAnswer(story.title, answer, belief.values);
      told.push({ knownAt: belief.known_from.slice(0, 10), answer });
    }
    printStory(story, told);
  }
}

/** The SQL that an analyst would write. What is known in the future is what is known now: the settled present. */
async function ask(store: pg.Pool, key: Key, validAt: string, knownAt: string): Promise<Values | null> {
  const { rows } = await store.query<Record<keyof Values, string | null>>(
    `select tender, tz, to_tz
     from emend.tender_history_at($1::date, least($2::timestamptz, emend.settled()))
     where region = $3 and currency = $4`,
    [validAt, knownAt, key.region, key.currency],
  );
  const row = rows[0];
  return row ? { tender: flag(row.tender), tz: row.tz, to_tz: row.to_tz } : null;
}

function compareAnswer(what: string, found: Values | null, expected: Values | null): void {
  if (JSON.stringify(found) === JSON.stringify(expected)) return;
  throw new Mismatch(
    `${what}: the answer is ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`,
  );
}

function flag(text: string | null | undefined): boolean | null {
  return text === null || text === undefined ? null : text === 't';
}

async function stayUntilInterrupted(sourceUrl: string, storeUrl: string): Promise<void> {
  say(`
It stays running. Look around in the store:
  psql '${storeUrl}' -c "select * from emend.tender_at(current_date) where region = 'CU'"
Write a correction in the source, and look again:
  psql '${sourceUrl}' -c "insert into corrections.tender (region, currency, valid_from, valid_to, tender, _reason) values ('CU', 'USD', '2020-01-01', '2021-01-01', true, 'a try')"
  psql '${storeUrl}' -c "select * from emend.tender_periods where region = 'CU'"
Ctrl-C ends it.`);
  await new Promise<void>((resolve) => {
    process.once('SIGINT', resolve);
    process.once('SIGTERM', resolve);
  });
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { remedy, problems = [] } = error as {
    remedy?: string;
    problems?: readonly { path: string; problem: string; remedy: string }[];
  };
  return [
    error.message,
    remedy ?? error.stack ?? '',
    ...problems.map(({ path, problem, remedy: what }) => `${path}: ${problem}. ${what}`),
  ].join('\n');
}
