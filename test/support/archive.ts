import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { archive } from '../../src/pipeline/archive.ts';
import type { ArchiveRequest } from '../../src/pipeline/archive.ts';
import { verify } from '../../src/pipeline/verify.ts';
import type { Install } from './install.ts';

/** A folder that is removed after the test. */
export function createFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'emend-archive-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Every row of a log, whole, as text. */
export async function readLog({ source }: Pick<Install, 'source'>, target: string): Promise<string[]> {
  const { rows } = await source.query<{ row: string }>(
    `select l::text as row from corrections.${target} l order by l._id`,
  );
  return rows.map(({ row }) => row);
}

/** Two targets whose rows are moved to files, for `createInstall`. */
export const ddl = `
  create table public.orders (id integer primary key, amount integer not null, note text, check (amount < 1000));
  create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric(10, 2))`;
export const { targets } = defineConfig({
  targets: {
    orders: facts('public.orders', { key: ['id'] }),
    prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }),
  },
});

/** In the form in which tabs, line ends, backslashes and \N are hardest. */
const notes = ['a\tb', 'line\nend\r', '\\N', '\\', '', null, 'żółć 𝄞', '\\t'];

/** Logs orders with these ids, one row each. */
export async function order(install: Install, from: number, to: number): Promise<void> {
  await install.source.query(
    `insert into corrections.orders (id, amount, note)
     select i, i % 10, ($3::text[])[1 + i % cardinality($3::text[])] from generate_series($1::integer, $2::integer) as i`,
    [from, to, notes],
  );
}

/** Logs a price of product A, and gives the number of its row. */
export async function price(install: Install, from: string, to: string, amount: string): Promise<string> {
  const { rows } = await install.source.query<{ id: string }>(
    `insert into corrections.prices (product, valid_from, valid_to, price) values ('A', $1, $2, $3) returning _id as id`,
    [from, to, amount],
  );
  return rows[0]!.id;
}

/** Moves all that is in the logs by now. */
export function move(install: Install, to: string, request: Partial<ArchiveRequest> = {}) {
  return archive(install.config, { target: null, before: new Date().toISOString(), to, ...request });
}

/** What verify finds in each target, orders first; `well` where it finds nothing. */
export const found = async (install: Install, archives: string[] = []) =>
  (await verify(install.config, { archives })).map((each) => ({ ...each.found }));
export const well = [{}, {}];

/** Rows of which the store says that source and store disagree. */
export async function diverged({ store }: Install): Promise<unknown[]> {
  return (await store.query(`select * from emend.diverged`)).rows;
}
