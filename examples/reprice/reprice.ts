/**
 * A contract that re-prices a month, by backfills: the first rule is wrong, which an answer shows that somebody worked out by
 * hand; it is reverted, and the right one is promoted. Live corrections arrive all the time. Every answer is held against a
 * model of the log.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { correct, createEmend, defineConfig } from 'emend';
import type { BackfillRun, Emend } from 'emend';
import pg from 'pg';
import config from './emend.config.ts';
import { createRandom, dayText, daysOfYear, fareOfYear, routeName } from './fares.ts';
import { answeredYear, expectedYear, firstDifference } from './model.ts';
import type { Moment } from './model.ts';

export interface Servers {
  readonly sourceUrl: string;
  readonly storeUrl: string;
  readonly redisUrl: string | undefined;
}

export interface Told {
  readonly say: (text: string) => void;
  readonly table: (header: readonly string[], rows: readonly (readonly string[])[]) => void;
}

/** What differs from the model: the demo ends with 1 and says where. */
export class Mismatch extends Error {}

/** The fares that the story is about. Live corrections of the demo leave these routes alone, but for one sale. */
const asked = [
  { route: 'KL-0005', day: '2026-09-15' },
  { route: 'KL-0035', day: '2026-09-15' },
  { route: 'KL-0000', day: '2026-09-11' },
  { route: 'AF-0001', day: '2026-09-15' },
] as const;

/** As worked out by hand: `fares.ts` and the contract. */
const byHand: readonly { readonly title: string; readonly fares: readonly string[] }[] = [
  { title: 'the fares of the year', fares: ['147.90', '56.76', '112.34', '124.41'] },
  { title: 'contract 17, first rule', fares: ['130.15', '49.95', '59.00', '124.41'] },
  { title: 'first rule reverted', fares: ['147.90', '56.76', '59.00', '124.41'] },
  { title: 'contract 17 with its floor', fares: ['130.15', '56.76', '59.00', '124.41'] },
];

const first = '2026-11-29-contract-17';
const second = '2026-11-30-contract-17';

interface Play {
  readonly emend: Emend;
  readonly source: pg.Pool;
  readonly store: pg.Pool;
  readonly routes: number;
  readonly told: Told;
  readonly moments: Moment[];
}

/**
 * @param routes 40 or more
 * @returns the fares of `asked` at each moment, as they are answered when all is over
 * @throws Mismatch
 */
export async function playReprice(servers: Servers, routes: number, told: Told): Promise<string[][]> {
  const emend = createEmend(
    defineConfig({
      ...config,
      source: { url: servers.sourceUrl },
      store: { url: servers.storeUrl },
      queue: servers.redisUrl === undefined ? {} : { redis: servers.redisUrl },
    }),
    {},
  );
  const types = { getTypeParser: () => (text: string) => text };
  const source = new pg.Pool({ connectionString: servers.sourceUrl, max: 3, types });
  const store = new pg.Pool({ connectionString: servers.storeUrl, max: 2, types });
  try {
    await store.query(`
      create table public.fares (
        route text, valid_from date, valid_to date not null, price numeric(8, 2) not null check (price > 0),
        primary key (route, valid_from)
      )`);
    await emend.migrate();
    const pipeline = await emend.start({ logLevel: 'error' }); // live rows that wait for a promote are warned of
    try {
      return await play({ emend, source, store, routes, told, moments: [] });
    } finally {
      await pipeline.stop();
    }
  } finally {
    await Promise.all([source.end(), store.end()]);
  }
}

async function play(story: Play): Promise<string[][]> {
  const { emend, source, told } = story;
  await writeYear(story);
  await remember(story, []);

  told.say(`\nContract 17 lowers September by 12 % for one carrier: backfills/${first}.sql`);
  await whileCorrected(story, 1, async () => showRun(told, await emend.runBackfill(path(`${first}.sql`))));
  // a sale, after the rows of the backfill were written, and before it is promoted: it wins its days
  await correct(source, config.targets.fares, {
    route: 'KL-0000', valid_from: '2026-09-10', valid_to: '2026-09-13', price: '59.00',
  }); // prettier-ignore
  await emend.wait({ timeoutMs: 30_000 });
  await whileCorrected(story, 2, async () => {
    const promoted = await emend.runBackfill(path(`${first}.sql`), { promote: true, reason: 'looks right' });
    requireState(promoted, 'promoted');
    const newer = promoted.checks.find(({ name }) => name === 'superseded_by_newer')!.figure;
    told.say(`Promoted. Of its rows ${newer} met live corrections that are newer, and keep their days.`);
  });
  await remember(story, [first]);

  const [, wrong] = await answers(story, story.moments[1]!);
  told.say(
    `\nWorked out by hand, KL-0035 costs 56.76 on September 15: fares below 90 stay, says paragraph 3. The answer is ${wrong}.`,
  );
  await whileCorrected(story, 3, () =>
    emend.revertBackfill(first, { reason: 'the rule lacks paragraph 3', timeoutMs: 60_000 }),
  );
  await remember(story, []);
  told.say(`Reverted: the sale, which came later, stays.`);

  told.say(
    `\nThe right rule, with the fares that were worked out by hand as a check: backfills/${second}.ts`,
  );
  await whileCorrected(story, 4, async () => {
    const promoted = await emend.runBackfill(path(`${second}.ts`), { promote: true, reason: 'as by hand' });
    requireState(promoted, 'promoted');
    showRun(told, promoted);
  });
  await remember(story, [second]);
  return compareMoments(story);
}

/** Written as an application would, a thousand rows in a transaction. */
async function writeYear({ emend, source, routes, told }: Play): Promise<void> {
  const fares = fareOfYear(routes);
  for (let start = 0; start < fares.length; start += 1_000)
    await correct(source, config.targets.fares, fares.slice(start, start + 1_000));
  await emend.wait({ timeoutMs: 60_000 });
  told.say(`${fares.length} fares of ${routes} routes are in the store: 2026, as a timeline.`);
}

/** Live corrections of all routes but those of the story, from when `body` begins until it ends. */
async function whileCorrected(
  { source, routes }: Play,
  seed: number,
  body: () => Promise<unknown>,
): Promise<void> {
  const below = createRandom(seed);
  const isOfStory = (route: string): boolean => asked.some((each) => each.route === route);
  let isOver = false;
  const writing = (async () => {
    while (!isOver) {
      const [route, day] = [routeName(below(routes)), below(daysOfYear - 10)];
      const period = { valid_from: dayText(day), valid_to: dayText(day + 1 + below(9)) };
      const price = (50 + below(30_000) / 100).toFixed(2);
      if (!isOfStory(route)) await correct(source, config.targets.fares, { route, ...period, price });
      await sleep(5);
    }
  })();
  writing.catch(() => undefined); // told when it is awaited
  try {
    await body();
  } finally {
    isOver = true;
  }
  await writing;
}

/** A settled time at which everything is merged that was written: its answer never changes from now on. */
async function remember({ emend, source, store, moments }: Play, visible: readonly string[]): Promise<void> {
  await emend.wait({ timeoutMs: 60_000 });
  const last = await source.query<{ id: string }>(
    `select max(_id) as id from corrections.fares where _backfill is null`,
  );
  const now = await store.query<{ at: string }>(`select clock_timestamp()::text as at`);
  const knownAt = now.rows[0]!.at;
  await store.query(`select emend.await_settled($1::timestamptz)`, [knownAt]);
  const { title } = byHand[moments.length]!;
  moments.push({ title, knownAt, lastLive: Number(last.rows[0]!.id), visible });
}

async function answers({ store }: Pick<Play, 'store'>, { knownAt }: Moment): Promise<string[]> {
  const fares: string[] = [];
  for (const { route, day } of asked) {
    const { rows } = await store.query<{ price: string }>(
      `select price from emend.fares_at($1::date, $2::timestamptz) where route = $3`,
      [day, knownAt, route],
    );
    fares.push(rows[0]?.price ?? 'nothing');
  }
  return fares;
}

/** All moments, asked about when all is over: the four fares, and every route on every day. */
async function compareMoments(story: Play): Promise<string[][]> {
  const { source, store, routes, moments, told } = story;
  const found: string[][] = [];
  for (const [place, moment] of moments.entries()) {
    const fares = await answers(story, moment);
    const wanted = byHand[place]!.fares;
    if (fares.join() !== wanted.join())
      throw new Mismatch(`${moment.title}: ${fares.join(', ')} instead of ${wanted.join(', ')}`);
    const difference = firstDifference(await expectedYear(source, moment), await answeredYear(store, moment));
    if (difference !== undefined) throw new Mismatch(`${moment.title}: ${difference}`);
    found.push(fares);
  }
  told.say('\nThe same questions, as they were answered then:');
  told.table(
    ['as believed', ...asked.map(({ route, day }) => `${route} ${day}`)],
    moments.map(({ title }, place) => [title, ...found[place]!]),
  );
  told.say(
    `Each of the ${routes} routes has the right fare on each day of the year, at each of these times.`,
  );
  return found;
}

function showRun({ say, table }: Told, run: BackfillRun): void {
  requireState(run, run.done.includes('promoted') ? 'promoted' : 'checked');
  table(
    ['check', 'figure', 'threshold', 'verdict'],
    run.checks.map(({ name, figure, threshold, verdict }) => [name, figure, threshold, verdict]),
  );
  for (const { keys, added, removed, changed } of run.diff)
    say(`The diff: ${keys} routes, ${changed} fares changed, ${added} added, ${removed} removed.`);
}

function requireState({ backfill, state, problem }: BackfillRun, wanted: string): void {
  if (state !== wanted || problem !== null)
    throw new Mismatch(`${backfill} is ${state} instead of ${wanted}: ${problem ?? 'no problem is told'}`);
}

function path(name: string): string {
  return fileURLToPath(new URL(`backfills/${name}`, import.meta.url));
}
