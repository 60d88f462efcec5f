import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Pool } from 'pg';
import { loadRemedy, loadRows } from '../backfill/load.ts';
import type { LoadProgress, LoadWork, Loaded } from '../backfill/load.ts';
import { loadSql } from '../backfill/load-sql.ts';
import { loadStoreSql } from '../backfill/load-store-sql.ts';
import type { FileRow } from '../backfill/file-row.ts';
import type { LoadItem } from '../backfill/load-pieces.ts';
import { readInput } from '../backfill/read-rows.ts';
import { createSkipFile } from '../backfill/skip-file.ts';
import type { ByteStream } from '../backfill/text-file.ts';
import type { Target } from '../change/target.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { withClient } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { readAppendColumns } from '../log/append-columns.ts';
import { requireNotEnded } from '../log/backfill-refusal.ts';
import { textOf } from '../log/value-text.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import { withServers } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';
import { tellIfBlocked } from './lock-wait.ts';

/** What is loaded: a file (`-` is stdin), a select that runs in the source (or in the store), or rows of a program. */
export type LoadInput =
  | { readonly file: string; readonly format?: 'csv' | 'ndjson' | undefined }
  | { readonly sql: string; readonly on?: 'source' | 'store' | undefined }
  | { readonly rows: AsyncIterable<object> | Iterable<object> };

export interface LoadOptions {
  readonly backfill: string;
  /** May be left out where the backfill has one target. */
  readonly target?: string | undefined;
  /** Names the input; default: the file's name, or from the text of the select. Rows of a program need one. */
  readonly source?: string | undefined;
  readonly ignore?: readonly string[] | undefined;
  /** A start that is null means an open one; otherwise such a row is refused. */
  readonly openStart?: boolean | undefined;
  /** Path of a file that gets bad rows with their reasons, as NDJSON. Without it the first bad row ends the load. */
  readonly skipBad?: string | undefined;
  /** What to do about a bad row. */
  readonly remedy?: string | undefined;
  readonly onProgress?: ((progress: LoadProgress & { readonly share: number | null }) => void) | undefined;
  /** Told once, after some seconds: who holds the backfill, or the input. */
  readonly onBlocked?: ((holder: string) => void) | undefined;
}

/** Loads into an open backfill; killed anywhere and run again, it goes on. See `backfill/load.ts`. */
export async function loadBackfill(
  config: ResolvedConfig,
  input: LoadInput,
  options: LoadOptions,
): Promise<Loaded> {
  return withServers(config, { role: 'backfill', max: 2 }, async ({ source, store }) => {
    await requireInstall(store);
    await requireNotEnded(source, options.backfill);
    const name = options.target ?? (await onlyTarget(source, options.backfill));
    const declaration = findTarget(config.targets, name);
    const [target] = await withClient(store, (client) => resolveTargets(client, [declaration]));
    const work = { source, target: target!, name: options.backfill };
    if ('sql' in input) {
      const select = { ...work, sql: input.sql, input: options.source };
      return tellIfBlocked(source, options.onBlocked, () =>
        input.on === 'store' ? loadStoreSql({ ...select, store }) : loadSql(select),
      );
    }
    const { rows, share } =
      'file' in input
        ? await openFile(input, options.remedy)
        : { rows: rowsOf(source, target!, input.rows), share: () => null };
    const loading: LoadWork = {
      ...work,
      input: inputName(input, options.source),
      rows,
      ignore: options.ignore ?? [],
      remedy: options.remedy,
      openStart: options.openStart === true,
      ...(options.skipBad === undefined ? {} : { skipBad: createSkipFile(options.skipBad) }),
      onProgress: (progress) => options.onProgress?.({ ...progress, share: share() }),
    };
    return tellIfBlocked(source, options.onBlocked, () => loadRows(loading));
  });
}

function inputName(input: LoadInput, source: string | undefined): string {
  if (source !== undefined) return source;
  if ('file' in input) return input.file === '-' ? 'stdin' : basename(input.file);
  throw new EmendError('bad_arguments', 'rows of a program have no name of their own', {
    remedy: 'Give source: by this name a load that was killed is gone on with.',
  });
}

async function onlyTarget(source: Pool, backfill: string): Promise<string> {
  const { rows } = await source.query<{ targets: string }>(
    `select to_jsonb(targets)::text as targets from corrections._backfill where name = $1`,
    [backfill],
  );
  if (rows.length === 0) {
    throw new EmendError('backfill_refused', `there is no backfill ${backfill}`, {
      remedy: 'See emend backfill list, or open it with emend backfill open.',
    });
  }
  const targets = JSON.parse(rows[0]!.targets) as string[];
  if (targets.length === 1) return targets[0]!;
  throw new EmendError('bad_arguments', `backfill ${backfill} has several targets: ${targets.join(', ')}`, {
    remedy: 'Say with --target which of them the rows are of.',
  });
}

interface OpenedRows {
  readonly rows: AsyncIterable<LoadItem>;
  /** How much of it has been read, 0 to 1, where that is known. */
  readonly share: () => number | null;
}

async function openFile(
  { file: path, format }: { file: string; format?: 'csv' | 'ndjson' | undefined },
  remedy = loadRemedy,
): Promise<OpenedRows> {
  // a file that is not there is told by whoever reads it
  const size =
    path === '-'
      ? 0
      : await stat(path).then(
          ({ size: bytes }) => bytes,
          () => 0,
        );
  let read = (): number => 0;
  const onOpen = (file: ByteStream): void => {
    read = () => file.bytesRead ?? 0;
  };
  return {
    rows: readInput({ path, format, remedy, onOpen }),
    share: () => (size > 0 ? Math.min(1, read() / size) : null),
  };
}

/** Rows of a program: properties are the names of columns, values as `correct()` takes them. */
async function* rowsOf(
  source: Pool,
  target: Target,
  rows: AsyncIterable<object> | Iterable<object>,
): AsyncGenerator<FileRow> {
  const columns = new Map(
    (await readAppendColumns(source, target.name)).map((column) => [column.name, column]),
  );
  let line = 0;
  for await (const row of rows) {
    line++;
    if (typeof row !== 'object' || row === null) throw noObject(line);
    const stated = Object.entries(row).filter(([, value]) => value !== undefined);
    const texts = stated.map(([property, value]) => {
      const column = columns.get(property) ?? { name: property, type: 'text', defaultSql: null };
      return [property, textOf(value, { column, row: line, property })];
    });
    yield { line, values: Object.fromEntries(texts) as FileRow['values'] };
  }
}

function noObject(line: number): EmendError {
  return new EmendError('correction_invalid', `row ${line} of the program is not an object`, {
    remedy: 'Give objects whose properties are the names of columns.',
  });
}
