import type { ClientBase } from 'pg';

/**
 * Settings that decide how a value looks as text and what a name means. A database or role may set any of them;
 * a value that is written under one and read under another is another value (law 9).
 */
export const pinnedSettings: Readonly<Record<string, string>> = {
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  extra_float_digits: '3',
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  array_nulls: 'on', // off reads NULL in an array as the text NULL, and rows travel as arrays
  xmloption: 'content',
  search_path: '',
};

/** Pins a session, with further settings where given. Not as startup options: connection poolers refuse those. */
export async function pinSession(
  client: Pick<ClientBase, 'query'>,
  further: Readonly<Record<string, string>> = {},
): Promise<void> {
  const settings = { ...pinnedSettings, ...further };
  await client.query(
    `select set_config(name, setting, false) from unnest($1::text[], $2::text[]) as pinned (name, setting)`,
    [Object.keys(settings), Object.values(settings)],
  );
}
