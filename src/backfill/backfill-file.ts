/**
 * Backfill files: what a backfill is, in one file that is kept beside the code, as a migration is.
 *
 * Promise: a file that is read is whole; every mistake in it is told at once, and before anything is done.
 * If it breaks: a misspelt boundary or check is left out in silence, and history is rewritten without it.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename, dirname, extname, resolve } from 'node:path';
import { Findings, kindOf } from '../config/findings.ts';
import { loadModule } from '../config/load-module.ts';
import { EmendError } from '../errors.ts';
import type { Boundary } from '../log/backfill.ts';
import { describeKnownChecks, unknownChecks } from './check-names.ts';
import type { BackfillDefinition, RowSource, StatedSample } from './define-backfill.ts';
import { parseSqlFile } from './sql-file.ts';
import { readStatedSamples } from './stated-samples.ts';

/** A backfill file that was read and checked. */
export interface BackfillFile {
  /** The backfill's: the file's, without its ending. */
  readonly name: string;
  /** The file's own. */
  readonly fileName: string;
  /** Absolute; paths in the file are relative to it. */
  readonly folder: string;
  /** SHA-256 of the file's bytes, and of its file of samples, in hex. */
  readonly checksum: string;
  /** It was changed since this process loaded it, and what is stated here is of then: Node loads a module once. */
  readonly isStale: boolean;
  readonly targets: readonly string[];
  readonly boundary: Readonly<Record<string, Boundary>>;
  readonly reason: string;
  readonly logicVersion: string | undefined;
  readonly origin: { readonly input: string | undefined; readonly files: readonly string[] };
  readonly rows: readonly { readonly target: string; readonly rows: RowSource }[];
  readonly sqlChecks: Readonly<Record<string, string>>;
  readonly samples: string | readonly StatedSample[];
  readonly thresholds: Readonly<Record<string, number>>;
  readonly accept: Readonly<Record<string, string>>;
}

/** Modules that this process has loaded: path -> checksum as it was then. */
const loadedHere = new Map<string, string>();

const example = 'defineBackfill({ targets: […], reason: …, rows: … })';

/** @throws EmendError `bad_arguments` where there is no such file, `config_invalid` with every mistake in it */
export async function readBackfillFile(path: string): Promise<BackfillFile> {
  const absolute = resolve(path);
  const bytes = await readBytes(absolute, path);
  const ending = extname(absolute);
  const name = basename(absolute, ending);
  if (!/^[a-z0-9][a-z0-9_.-]{0,99}$/.test(name)) {
    throw new EmendError('bad_arguments', `"${name}" cannot be the name of a backfill`, {
      remedy:
        'Name the file with a-z, 0-9, _, - and ., beginning with a letter or digit: 2026-11-29-reprice.',
    });
  }
  const checksum = createHash('sha256').update(bytes).digest('hex');
  const findings = new Findings();
  const isSql = ending === '.sql';
  const stated = isSql ? parseSqlFile(bytes.toString('utf8'), findings) : await loadModule(absolute, example);
  const definition = readDefinition(stated, findings);
  if (findings.problems.length > 0) {
    throw new EmendError('config_invalid', `${path} is no backfill that can be run`, {
      remedy: 'Correct what is said for each; nothing has been done.',
      problems: findings.problems,
    });
  }
  const first = loadedHere.get(absolute) ?? checksum;
  if (!isSql) loadedHere.set(absolute, first);
  return {
    name,
    fileName: basename(absolute),
    folder: dirname(absolute),
    checksum: await checksumOf(bytes, dirname(absolute), definition),
    isStale: first !== checksum,
    ...definition,
  };
}

/** What the answers are held against is part of what is run: a file of samples that was changed makes it another one. */
async function checksumOf(bytes: Buffer, folder: string, { samples }: Definition): Promise<string> {
  const hash = createHash('sha256').update(bytes);
  // one that cannot be read is told where it is read
  if (typeof samples === 'string') hash.update(await readFile(resolve(folder, samples)).catch(() => ''));
  return hash.digest('hex');
}

async function readBytes(absolute: string, path: string): Promise<Buffer> {
  if (!/\.(ts|mts|js|mjs|sql)$/.test(absolute)) {
    throw new EmendError('bad_arguments', `${path} is no backfill file by its name`, {
      remedy:
        'A backfill file ends in .ts (.mts, .js, .mjs) or .sql. Rows are loaded with emend backfill load.',
    });
  }
  return readFile(absolute).catch((error: NodeJS.ErrnoException) => {
    throw new EmendError('bad_arguments', `${path} cannot be read: ${error.code ?? error.message}`, {
      remedy: 'Correct the path.',
      cause: error,
    });
  });
}

const known = [
  'targets',
  'boundary',
  'reason',
  'logicVersion',
  'origin',
  'rows',
  'checks',
  'accept',
] as const satisfies readonly (keyof BackfillDefinition)[];

type Definition = Omit<BackfillFile, 'name' | 'fileName' | 'folder' | 'checksum' | 'isStale'>;

/** Everything that it states; whole only where nothing was found. */
function readDefinition(value: unknown, findings: Findings): Definition {
  const root = findings.object(value, 'default export', `Write: export default ${example}`) ?? {};
  findings.unknownKeys(root, known, '');
  const targets = findings.names(root['targets'], 'targets', "targets: ['fares']");
  if (Array.isArray(root['targets']) && targets.length === 0)
    findings.add('targets', 'is an empty list', 'Name the targets that its rows are of.');
  const checks = part(root['checks'], 'checks', ['sql', 'samples', 'thresholds'], findings);
  return {
    targets,
    boundary: readBoundary(root['boundary'], targets, findings),
    reason: text(root['reason'], 'reason', findings) ?? '',
    logicVersion:
      root['logicVersion'] === undefined ? undefined : text(root['logicVersion'], 'logicVersion', findings),
    origin: readOrigin(root['origin'], findings),
    rows: readRowSources(root['rows'], targets, findings),
    sqlChecks: withoutEnds(texts(checks['sql'], 'checks.sql', findings)),
    samples: readStatedSamples(checks['samples'], findings),
    thresholds: readThresholds(checks['thresholds'], findings),
    accept: readAccepted(root['accept'], Object.keys(checks['sql'] ?? {}), findings),
  };
}

function readBoundary(
  value: unknown,
  targets: readonly string[],
  findings: Findings,
): Definition['boundary'] {
  const boundary = part(value, 'boundary', targets, findings);
  for (const [target, limits] of Object.entries(boundary)) {
    const path = `boundary.${target}`;
    for (const [name, limit] of Object.entries(part(limits, path, ['from', 'to', 'where'], findings)))
      text(limit, `${path}.${name}`, findings);
  }
  return boundary as Definition['boundary'];
}

function readOrigin(value: unknown, findings: Findings): Definition['origin'] {
  if (typeof value === 'string') return { input: value, files: [] };
  const { input, files = [] } = part(value, 'origin', ['input', 'files'], findings);
  return {
    input: input === undefined ? undefined : text(input, 'origin.input', findings),
    files: findings.names(files, 'origin.files', "files: ['exports/2026-09.csv.gz']"),
  };
}

function readRowSources(value: unknown, targets: readonly string[], findings: Findings): Definition['rows'] {
  if (!Array.isArray(value)) {
    const [only] = targets;
    if (targets.length > 1)
      findings.add(
        'rows',
        'does not say which rows are of which target',
        'Write: rows: [{ target, rows }, …]',
      );
    const rows = readRowSource(value, 'rows', findings);
    return only !== undefined && rows ? [{ target: only, rows }] : [];
  }
  if (value.length === 0) findings.add('rows', 'is an empty list', 'Say where the rows come from.');
  return (value as unknown[]).flatMap((each, place) => {
    const path = `rows[${place}]`;
    const { target, rows } = part(each, path, ['target', 'rows'], findings);
    if (typeof target !== 'string' || !targets.includes(target))
      findings.add(
        `${path}.target`,
        'is no target of this backfill',
        `Its targets are: ${targets.join(', ')}.`,
      );
    const source = readRowSource(rows, `${path}.rows`, findings);
    return source ? [{ target: String(target), rows: source }] : [];
  });
}

const rowSources = 'Give { sql, on }, { file }, or a function such as async function* () { … }.';

function readRowSource(value: unknown, path: string, findings: Findings): RowSource | undefined {
  if (typeof value === 'function') return value as RowSource;
  const source = findings.object(value, path, rowSources);
  if (!source) return undefined;
  if ('sql' in source === 'file' in source) {
    findings.add(path, 'has to have either sql or file', rowSources);
    return undefined;
  }
  if ('sql' in source) {
    findings.unknownKeys(source, ['sql', 'on'], path);
    text(source['sql'], `${path}.sql`, findings);
    if (![undefined, 'source', 'store'].includes(source['on'] as string | undefined))
      findings.add(`${path}.on`, 'is neither source nor store', 'Say where the select runs.');
  } else {
    findings.unknownKeys(source, ['file', 'format', 'ignore', 'openStart', 'skipBad'], path);
    text(source['file'], `${path}.file`, findings);
    if (![undefined, 'csv', 'ndjson'].includes(source['format'] as string | undefined))
      findings.add(
        `${path}.format`,
        'is neither csv nor ndjson',
        'Leave it out to go by the ending of the file.',
      );
  }
  return source as unknown as RowSource;
}

/** By their names, the checks look for them. All are shares, but for the number of gaps. */
const thresholdNames = [
  'valid_at_load_time',
  'null_share',
  'rows_against_today',
  'keys_against_today',
  'gaps_opened',
];

function readThresholds(value: unknown, findings: Findings): Definition['thresholds'] {
  const thresholds = part(value, 'checks.thresholds', thresholdNames, findings);
  for (const [name, bound] of Object.entries(thresholds)) {
    const isCount = name === 'gaps_opened';
    if (typeof bound !== 'number' || !(bound >= 0 && bound <= (isCount ? Infinity : 1)))
      findings.add(
        `checks.thresholds.${name}`,
        isCount ? 'is not a number of gaps' : 'is not a share',
        isCount ? 'Give a number from 0 on.' : 'Give a number from 0 to 1.',
      );
  }
  return thresholds as Definition['thresholds'];
}

function readAccepted(value: unknown, own: readonly string[], findings: Findings): Definition['accept'] {
  const accepted = texts(value, 'accept', findings);
  for (const name of unknownChecks(Object.keys(accepted), own))
    findings.add(
      `accept.${name}`,
      'is no check of this backfill',
      `Known: ${describeKnownChecks(own)} (in a .sql file: -- accept.null_share:price: why).`,
    );
  return accepted;
}

/** A check runs inside another select, which its semicolon would end. */
function withoutEnds(queries: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(queries).map(([name, query]) => [name, query.trim().replace(/;+$/, '')]),
  );
}

/** An object that may be left out, with known names only. */
function part(
  value: unknown,
  path: string,
  names: readonly string[],
  findings: Findings,
): Record<string, unknown> {
  if (value === undefined) return {};
  const object = findings.object(value, path, `Known here: ${names.join(', ')}.`) ?? {};
  findings.unknownKeys(object, names, path);
  return object;
}

function texts(value: unknown, path: string, findings: Findings): Record<string, string> {
  if (value === undefined) return {};
  const object = findings.object(value, path, 'Write: { name: text }') ?? {};
  return Object.fromEntries(
    Object.entries(object).map(([name, each]) => [name, text(each, `${path}.${name}`, findings) ?? '']),
  );
}

function text(value: unknown, path: string, findings: Findings): string | undefined {
  if (typeof value === 'string' && value.trim() !== '') return value;
  findings.add(path, `is ${kindOf(value)}, and has to be a text`, 'Write a text that is not empty.');
  return undefined;
}
