import type { ClientBase } from 'pg';
import { rowDigest } from '../change/row-digest.ts';
import { statedColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { ident, literal, qualified } from '../db/identifier.ts';
import { pinnedSettings } from '../db/session.ts';
import type { Statement } from '../db/statement.ts';
import { logTable } from './log-columns.ts';

/**
 * `corrections._digest_<target>(backfill, first, last)`: count and digest of the rows that a backfill has in the log, for seal, or
 * of those from one `_id` to another, for a chunk; and which columns are in the digest: the store counts by these, whatever the
 * target has gained since. It names them, so each target has its own, made again when the columns change.
 */
export async function planDigestFunction(source: ClientBase, target: Target): Promise<Statement[]> {
  const name = `_digest_${target.name}`;
  const body = digestBody(target);
  if ((await readBody(source, name)) === body) return [];
  const signature = `${qualified('corrections', name)} (backfill text, first bigint default 1, last bigint default 9223372036854775807)`;
  const settings = Object.entries(pinnedSettings)
    .filter(([setting]) => setting !== 'client_encoding') // of the wire, not of the text
    .map(([setting, value]) => `set ${ident(setting.toLowerCase())} = ${literal(value)}`);
  return [
    {
      purpose: `count and digest of backfills of ${target.name}`,
      sql: [
        `create or replace function ${signature} returns table (rows bigint, digest numeric, columns text[])`,
        `language sql stable`,
        ...settings,
        `as ${literal(body)}`,
      ].join('\n'),
    },
  ];
}

function digestBody(target: Target): string {
  const columns = ['_id', '_op', ...statedColumns(target).map((column) => column.name)];
  return `
  select count(*), coalesce(sum(${rowDigest(columns.map((column) => `l.${ident(column)}`))}), 0),
    array[${columns.map(literal).join(', ')}]
  from ${logTable(target)} l
  where l._backfill = $1 and l._id between $2 and $3
`;
}

async function readBody(source: ClientBase, name: string): Promise<string | undefined> {
  const { rows } = await source.query<{ body: string }>(
    `select p.prosrc as body from pg_proc p where p.oid = to_regprocedure($1)`,
    [`${qualified('corrections', name)}(text, bigint, bigint)`],
  );
  return rows[0]?.body;
}
