/** Says of each log how far back it can be replayed, and what would end that. */
import { stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import type { Pool } from 'pg';
import { lookAtRawInput, rawInputOf } from '../backfill/raw-input.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { qualified } from '../db/identifier.ts';
import { EmendError } from '../errors.ts';
import type { Problem } from '../errors.ts';
import { isThere, requireSame } from '../log/archive-file.ts';
import { placesOf } from '../log/archive-places.ts';
import { readArchivedFiles } from '../log/archive-records.ts';
import type { ArchivedFile } from '../log/archive-records.ts';
import { withoutManifest } from '../log/mend-manifest.ts';
import { countOf } from '../observe/count-of.ts';
import { judgeArchives, readLackingArchives } from './archive-status.ts';
import { withServers } from './connections.ts';
import { requireInstall } from './install.ts';

export interface SourcesRequest {
  /** Reads every file, and compares it with its SHA-256; else only whether it is there, in its size. */
  readonly check?: boolean;
  /** Manifests beside archived files that are no longer where they were written. */
  readonly archives?: readonly string[];
  /** Folders in which raw input of backfills is looked for. */
  readonly inputs?: readonly string[];
}

/** Rows that are in one place, and the times between which they were recorded; null where there are none. */
interface Extent {
  readonly rows: number;
  readonly firstId: string | null;
  readonly lastId: string | null;
  readonly firstRecordedAt: string | null;
  readonly lastRecordedAt: string | null;
}

export interface LogSource {
  readonly target: string;
  readonly log: Extent & { readonly bytes: number };
  readonly archived: Extent & {
    readonly files: number;
    readonly unreadable: readonly {
      readonly file: string;
      readonly rows: number;
      readonly problem: string;
    }[];
    /** With `check`: files that can be read, and that no manifest beside them lists. */
    readonly unlisted: readonly string[];
  };
  /** Rows that were adopted with the table: every fold begins with them. */
  readonly baseline: { readonly rows: number; readonly adoptedAt: string } | null;
  /** From this time on each correction can be read again; null: there are none. */
  readonly replayableFrom: string | null;
  /** Each correction that was ever written can be. */
  readonly isWhole: boolean;
  /** Rows that `log.keepDays` would end, and that are in no file; 0 where it says nothing. */
  readonly tooOld: number;
}

/** Raw input of a backfill that cannot be read, or is not what it was made from. */
export interface LostInput {
  readonly backfill: string;
  readonly file: string;
  readonly problem: string;
}

export interface Sources {
  readonly logs: readonly LogSource[];
  readonly lostInputs: readonly LostInput[];
  readonly problems: readonly Problem[];
}

export async function readSources(config: ResolvedConfig, request: SourcesRequest = {}): Promise<Sources> {
  const places = await placesOf(request.archives ?? []);
  return withServers(config, { role: 'sources', max: 2 }, async ({ source, store }) => {
    await requireInstall(store);
    const logs: LogSource[] = [];
    for (const { name } of config.targets)
      logs.push(
        await readLogSource({ source, store, target: name, places, keepDays: config.log.keepDays, request }),
      );
    const lostInputs = await findLostInputs({ source, store }, request);
    const problems = [
      ...logs.flatMap((log) => judge(log, config.log.keepDays)),
      ...judgeArchives(await readLackingArchives(store)),
      ...lostInputs.map(({ backfill, file, problem }) => ({
        path: `backfill ${backfill}`,
        problem: `its raw input ${file} ${problem}`,
        remedy:
          'Its rows can be replayed from the log; they cannot be made again. Bring the file back, or name its folder: --inputs.',
      })),
    ];
    return { logs, lostInputs, problems };
  });
}

interface Look {
  readonly source: Pool;
  readonly store: Pool;
  readonly target: string;
  readonly places: ReadonlyMap<string, string>;
  readonly keepDays: number;
  readonly request: SourcesRequest;
}

async function readLogSource(look: Look): Promise<LogSource> {
  const { source, store, target } = look;
  const files = await readArchivedFiles(source, [target]);
  const unreadable: LogSource['archived']['unreadable'][number][] = [];
  const gaps: string[] = [];
  const readable: { path: string; sha256: string }[] = [];
  for (const file of files) {
    const problem = await problemOf(file, look);
    if (problem === null) {
      readable.push({ path: pathOf(file, look), sha256: file.sha256 });
      continue;
    }
    unreadable.push({ file: file.file, rows: file.rows, problem });
    gaps.push(file.lastRecordedAt);
  }
  const { tooOld, ...log } = await readLog(look);
  const baseline = await readBaseline(store, target);
  const unlisted = look.request.check === true ? await withoutManifest(readable) : [];
  const archived = { files: files.length, ...extentOf(files), unreadable, unlisted };
  const isWhole = unreadable.length === 0;
  const begin = latestOrEarliest('least', [
    log.firstRecordedAt,
    archived.firstRecordedAt,
    baseline?.adoptedAt ?? null,
  ]);
  return {
    target,
    log,
    archived,
    baseline,
    replayableFrom: isWhole ? begin : latestOrEarliest('greatest', gaps),
    isWhole,
    tooOld,
  };
}

function pathOf({ sha256, file }: ArchivedFile, { places }: Look): string {
  return places.get(sha256) ?? file;
}

async function problemOf(file: ArchivedFile, look: Look): Promise<string | null> {
  const { places, request } = look;
  const path = pathOf(file, look);
  const elsewhere =
    file.host === hostname() || places.has(file.sha256) ? '' : `; it was written on ${file.host}`;
  try {
    if (request.check === true) await requireSame(path, file.sha256);
    const { size } = await stat(path);
    return size === file.bytes ? null : `has ${size} bytes, and was written with ${file.bytes}`;
  } catch (error) {
    if (error instanceof EmendError) return error.message;
    return `cannot be read (${(error as { code?: string }).code ?? (error as Error).message})${elsewhere}`;
  }
}

async function readLog({ source, target, keepDays }: Look): Promise<LogSource['log'] & { tooOld: number }> {
  const log = qualified('corrections', target);
  const { rows } = await source.query<{ found: string }>(
    `select jsonb_build_object(
       'rows', count(*), 'bytes', pg_total_relation_size($1::regclass),
       'firstId', min(l._id)::text, 'lastId', max(l._id)::text,
       'firstRecordedAt', min(l._recorded_at)::text, 'lastRecordedAt', max(l._recorded_at)::text,
       'tooOld', count(*) filter (where $2::integer > 0 and l._recorded_at < now() - $2::integer * interval '1 day')
     )::text as found
     from ${log} l`,
    [log, keepDays],
  );
  return JSON.parse(rows[0]!.found) as LogSource['log'] & { tooOld: number };
}

async function readBaseline(store: Pool, target: string): Promise<LogSource['baseline']> {
  const table = qualified('emend', `${target}_baseline`);
  const { rows: there } = await store.query<{ there: string }>(
    `select (to_regclass($1) is not null)::text as there`,
    [table],
  );
  if (there[0]!.there !== 'true') return null;
  const { rows } = await store.query<{ rows: string; adopted_at: string }>(
    `select (select count(*) from ${table}) as rows, t.known_since as adopted_at from emend.target t where t.name = $1`,
    [target],
  );
  return { rows: Number(rows[0]!.rows), adoptedAt: rows[0]!.adopted_at };
}

function extentOf(files: readonly ArchivedFile[]): Extent {
  return {
    rows: files.reduce((sum, { rows }) => sum + rows, 0),
    firstId: files[0]?.firstId ?? null,
    lastId:
      files.length === 0
        ? null
        : String(files.map(({ lastId }) => BigInt(lastId)).reduce((a, b) => (a > b ? a : b))),
    firstRecordedAt: latestOrEarliest(
      'least',
      files.map(({ firstRecordedAt }) => firstRecordedAt),
    ),
    lastRecordedAt: latestOrEarliest(
      'greatest',
      files.map(({ lastRecordedAt }) => lastRecordedAt),
    ),
  };
}

/** Of times as a pinned session writes them: in UTC, to the microsecond, trailing zeros left out. */
function latestOrEarliest(which: 'least' | 'greatest', times: readonly (string | null)[]): string | null {
  const sorted = times
    .filter((time) => time !== null)
    .toSorted((one, other) => (sortable(one) < sortable(other) ? -1 : 1));
  return (which === 'least' ? sorted[0] : sorted.at(-1)) ?? null;
}

function sortable(time: string): string {
  const [, second = time, fraction = ''] = /^(.*?)(?:\.(\d+))?\+00$/.exec(time) ?? [];
  return `${second}.${fraction.padEnd(6, '0')}`;
}

/** Of an abandoned one nothing was ever told; what was reverted was believed for a time, and may be asked about. */
async function findLostInputs(
  { source, store }: Pick<Look, 'source' | 'store'>,
  { check, inputs }: SourcesRequest,
): Promise<LostInput[]> {
  const folders = inputs && inputs.length > 0 ? inputs : ['.', 'backfills'];
  const { rows } = await source.query<{ name: string; origin: string }>(
    `select b.name, b.origin::text as origin from corrections._backfill b where b.origin ? 'raw_input' order by b.opened_at, b.name`,
  );
  const { rows: abandoned } = await store.query<{ name: string }>(
    `select name from emend.backfill where state = 'abandoned' and name = any ($1::text[])`,
    [rows.map(({ name }) => name)],
  );
  const isAbandoned = new Set(abandoned.map(({ name }) => name));
  const lost: LostInput[] = [];
  for (const { name, origin } of rows) {
    if (isAbandoned.has(name)) continue;
    for (const { file, checksum } of rawInputOf(JSON.parse(origin))) {
      const path = await firstThat(folders.map((folder) => resolve(folder, file)));
      if (path === null)
        lost.push({ backfill: name, file, problem: `is not there (looked for in ${folders.join(', ')})` });
      else if (check === true && (await lookAtRawInput('/', [path]))[0]!.checksum !== checksum)
        lost.push({ backfill: name, file, problem: changedSince(checksum) });
    }
  }
  return lost;
}

function changedSince(checksum: string | null): string {
  return checksum === null
    ? 'could not be read when the backfill was opened: whether this is it, nobody can tell'
    : 'is not what it was when the backfill was opened';
}

async function firstThat(paths: readonly string[]): Promise<string | null> {
  for (const path of paths) if (await isThere(path)) return path;
  return null;
}

function judge({ target, archived, replayableFrom, tooOld }: LogSource, keepDays: number): Problem[] {
  const path = `targets.${target}`;
  const gone = archived.unreadable.map(({ file, rows, problem }) => ({
    path,
    problem: `${countOf(rows, 'row')} cannot be replayed: ${problem.startsWith(file) ? problem : `${file} ${problem}`}`,
    remedy: `Bring the file back, or name the manifest beside a copy: --archive. Until then only what was written after ${replayableFrom} can be replayed whole.`,
  }));
  const due: Problem = {
    path,
    problem: `${countOf(tooOld, 'row is', 'rows are')} older than log.keepDays (${keepDays}), and in no file: without them the target cannot be replayed`,
    remedy: `Move them: emend archive ${target} --before ${daysAgo(keepDays)} --to <folder>`,
  };
  return [...gone, ...judgeUnlisted(target, archived.unlisted), ...(tooOld === 0 ? [] : [due])];
}

/** emend finds them by its records; who has only the files needs the manifest. */
function judgeUnlisted(target: string, unlisted: readonly string[]): Problem[] {
  return unlisted.length === 0
    ? []
    : [
        {
          path: `targets.${target}`,
          problem: `${countOf(unlisted.length, 'file is', 'files are')} in no manifest that can be read: ${unlisted.join(', ')}`,
          remedy: `Bring manifest.json back, or have it written where they were written to: emend archive ${target} --before 1970-01-01 --to <the folder above>. Nothing is lost: --archive and emend archive restore take the folder too.`,
        },
      ];
}

function daysAgo(days: number): string {
  return new Date(Date.now() - days * 86_400_000).toISOString();
}
