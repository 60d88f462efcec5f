import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';

/** The data of `data/README.md`, as its files have it. */
export interface Key {
  readonly region: string;
  readonly currency: string;
}

export interface Values {
  readonly tender: boolean | null;
  readonly tz: string | null;
  readonly to_tz: string | null;
}

export interface Correction {
  readonly seq: number;
  readonly release: string;
  readonly op: 'upsert' | 'retract';
  readonly key: Key;
  readonly valid_from: string | null;
  readonly valid_to: string | null;
  readonly values: Values;
}

export interface Release {
  readonly release: string;
  readonly released_at: string;
}

export interface Question {
  readonly q: number;
  readonly key: Key;
  readonly valid_at: string;
  readonly known_at: string;
  readonly answer: Values | null;
}

export interface Story {
  readonly title: string;
  readonly key: Key;
  readonly valid_at: string;
  readonly beliefs: readonly {
    readonly release: string;
    readonly known_from: string;
    readonly values: Values | null;
  }[];
}

export const correctionsFile = path('corrections.ndjson.gz');
export const releases = json<Release[]>('releases.json');
export const stories = json<Story[]>('stories.json');
export const corrections = lines<Correction>('corrections.ndjson.gz');
export const questions = lines<Question>('asof.ndjson');

/** The whole timeline after a release, as sorted texts that can be compared. */
export function expectedPeriods(release: string): string[] {
  return lines<Correction>(`expected/${release}.ndjson.gz`)
    .map(({ key, valid_from, valid_to, values }) =>
      periodText([
        key.region,
        key.currency,
        valid_from ?? '-infinity',
        valid_to ?? 'infinity',
        values.tender,
        values.tz,
        values.to_tz,
      ]),
    )
    .sort();
}

export function periodText(columns: readonly (string | boolean | null)[]): string {
  return columns.map((value) => (value === null ? 'null' : String(value))).join(' | ');
}

function path(file: string): string {
  return fileURLToPath(new URL(`data/${file}`, import.meta.url));
}

function read(file: string): string {
  const bytes = readFileSync(path(file));
  return (file.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8');
}

function json<T>(file: string): T {
  return JSON.parse(read(file)) as T;
}

function lines<T>(file: string): T[] {
  return read(file)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}
