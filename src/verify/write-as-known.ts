import type { ClientBase, Pool } from 'pg';
import type { Target } from '../change/target.ts';
import { periodColumns, userColumns } from '../change/target.ts';
import { ident, literal, qualified } from '../db/identifier.ts';
import { EmendError } from '../errors.ts';
import { countOf } from '../observe/count-of.ts';
import { sameKey } from '../store/equality.ts';
import { targetTable } from '../store/names.ts';
import { bySlices, sliceOfClaims } from './compare.ts';
import { expectedRows } from './expected.ts';
import { readUnread, settledNow } from './findings.ts';
import type { UnreadFile } from './findings.ts';
import { load } from './load.ts';
import { onRecord, readPosition, recordEnd, recordFold } from './rebuild-record.ts';
import { openWorkspace } from './workspace.ts';
import type { Examined } from './workspace.ts';
import { placeColumns } from './write-differences.ts';

export interface AsKnownOptions {
  readonly source: Pool;
  readonly store: Pool;
  readonly target: Target;
  /** A time of belief that is known and settled, as text; null: the settled present. */
  readonly knownAt: string | null;
  /** A table that is not there yet. */
  readonly into: { readonly schema: string; readonly table: string };
  readonly reason: string | null;
  /** Where archived files are now, by their SHA-256; of others, where they were written. */
  readonly archives?: ReadonlyMap<string, string>;
  /** The version of emend, for the record. */
  readonly logic: string;
  /** Changes to list. */
  readonly limit: number;
  readonly onProgress?: (text: string) => void;
}

type RowTexts = Readonly<Record<string, string | null>>;

/** A row of the table as it was known, and the row of the same key (and start) of the target today. */
export interface Change {
  readonly kind: 'only_known' | 'only_today' | 'changed';
  readonly known: RowTexts | null;
  readonly today: RowTexts | null;
}

export interface AsKnown {
  /** Its row in `emend.rebuild`. */
  readonly id: string;
  readonly target: string;
  readonly knownAt: string;
  /** The table, quoted. */
  readonly into: string;
  readonly corrections: number;
  readonly rows: number;
  /** How many rows of each kind differ from the target of today. */
  readonly changed: Readonly<Record<string, number>>;
  /** The first of them, by key. */
  readonly changes: readonly Change[];
  /** Corrections that log and ledger do not have alike, or whose file cannot be read: what they say may not be in it as it was. */
  readonly uncertain: number;
  /** Files that cannot be read; their rows are among `uncertain`, and taken for what the store has of them. */
  readonly unread: readonly UnreadFile[];
}

/**
 * Writes a target as it was known at a time into a table of its own, folded from log and baseline: the input of a
 * reprocessing that can be repeated. The table is there whole, or not at all. Its columns are those of the target.
 *
 * The target is never exchanged for such a state: what was told since would be forgotten, and the greatest version not win.
 *
 * @throws EmendError `bad_arguments` when the table is there, or its schema is not; Postgres' 55000 for a time that is not known
 */
export async function writeAsKnown(options: AsKnownOptions): Promise<AsKnown> {
  const {
    source,
    store,
    target,
    reason,
    archives = new Map(),
    logic,
    limit,
    onProgress = () => {},
  } = options;
  const into = qualified(options.into.schema, options.into.table);
  return onRecord(store, { target, reason, logic, writtenTo: into }, async (client, begun) => {
    await requireFree(client, options.into.schema, into);
    const until = await knownTime(client, target, options.knownAt);
    const position = await readPosition(source, target);
    const examined: Examined = { client, target, until, keys: null, archives };
    await openWorkspace(examined);
    const corrections = await load(source, examined, (rows) =>
      onProgress(`${countOf(rows, 'row')} of the log read`),
    );
    // a client that fails within it is given up by `onRecord`, and with it the transaction
    await client.query('begin');
    await client.query(
      `create table ${into} (like ${targetTable(target)} including defaults including generated including identity)`,
    );
    await bySlices(examined, writeSql(target, into), corrections, (share) =>
      onProgress(`${Math.round(share * 100)} % folded`),
    );
    await client.query(
      `comment on table ${into} is ${literal(`${target.name} as known at ${until}, rebuilt from its log (emend.rebuild ${begun.id})`)}`,
    );
    const comparison = await compareWithToday(client, target, into, limit);
    const uncertain = await countUncertain(client);
    const unread = await readUnread(client);
    await recordFold(client, begun, position, { until, corrections, found: comparison.changed });
    await recordEnd(client, begun, 'written', { putIn: comparison.rows });
    await client.query('commit');
    return {
      id: begun.id,
      target: target.name,
      knownAt: until,
      into,
      corrections,
      ...comparison,
      uncertain,
      unread,
    };
  });
}

async function requireFree(client: ClientBase, schema: string, into: string): Promise<void> {
  const { rows } = await client.query<{ taken: string; schema: string }>(
    `select (to_regclass($1) is not null)::text as taken, (to_regnamespace($2) is not null)::text as schema`,
    [into, ident(schema)],
  );
  const { taken, schema: hasSchema } = rows[0]!;
  if (taken === 'false' && hasSchema === 'true') return;
  throw new EmendError(
    'bad_arguments',
    taken === 'true' ? `--into ${into}: there is such a table already` : `--into ${into}: there is no schema ${schema} in the store`,
    { remedy: taken === 'true' ? 'Give another name, or drop the table.' : 'Create it, or give another one.' },
  ); // prettier-ignore
}

async function knownTime(client: ClientBase, target: Target, knownAt: string | null): Promise<string> {
  const settled = await settledNow(client);
  const { rows } = await client.query<{ known_at: string }>(
    `select $1::timestamptz::text as known_at from emend.require_known($1::timestamptz, $2)`,
    [knownAt ?? settled, target.name],
  );
  return rows[0]!.known_at;
}

/** Parameters: the first bucket, and the one after the last. */
function writeSql(target: Target, into: string): string {
  const columns = placeColumns(target, 'target', {
    key: 'e.key',
    id: 'e.id',
    op: 'e.op',
    from: 'e.f',
    to: 'e.t',
    vals: 'e.vals',
    knownFrom: 'e.known_from',
    knownTo: 'e.known_to',
  });
  return `
    with
    ${sliceOfClaims(target)},
    ${expectedRows(target)}
    insert into ${into} (${columns.map(([name]) => ident(name)).join(', ')})
    select ${columns.map(([, sql]) => sql).join(', ')}
    from expected e
    where e.place = 'target'`;
}

async function compareWithToday(
  client: ClientBase,
  target: Target,
  into: string,
  limit: number,
): Promise<Pick<AsKnown, 'rows' | 'changed' | 'changes'>> {
  const columns = userColumns(target).map(({ name }) => name);
  const texts = (side: string) =>
    `array[${columns.map((name) => `${side}.${ident(name)}::text`).join(', ')}]`;
  const names = `array[${columns.map(literal).join(', ')}]`;
  const identity = [...target.key, ...periodColumns(target).slice(0, 1)];
  await client.query(`analyze ${into}`);
  const { rows } = await client.query<{ kind: string; rows: string; listed: string }>(
    `with
     row_pair as (
       select row_number() over (order by ${identity.map(({ name }) => `coalesce(a.${ident(name)}, b.${ident(name)})`).join(', ')}) as place,
         case when b._version is null then 'only_known' when a._version is null then 'only_today' else 'changed' end as kind,
         case when a._version is not null then ${texts('a')} end as known, case when b._version is not null then ${texts('b')} end as today
       from ${into} a
       full join ${targetTable(target)} b on ${sameKey(identity, 'a', 'b')}
       where ${texts('a')} is distinct from ${texts('b')}
     )
     select kind, count(*) as rows,
       coalesce(json_agg(json_build_object('place', place, 'kind', kind, 'known', json_object(${names}, p.known), 'today', json_object(${names}, p.today)) order by place) filter (where place <= $1::bigint), '[]') as listed
     from row_pair p
     group by kind`,
    [limit],
  );
  const count = await client.query<{ rows: string }>(`select count(*) as rows from ${into}`);
  const listed = rows.flatMap((row) => JSON.parse(row.listed) as (Change & { place: number })[]);
  return {
    rows: Number(count.rows[0]!.rows),
    changed: Object.fromEntries(rows.map(({ kind, rows: number }) => [kind, Number(number)])),
    changes: listed
      .sort((one, other) => one.place - other.place)
      .map(({ kind, known, today }) => ({ kind, known, today })),
  };
}

async function countUncertain(client: ClientBase): Promise<number> {
  const { rows } = await client.query<{ gaps: string }>(
    `select (select count(*) from pg_temp.verify_gap where kind in ('not_in_log', 'other_nonce', 'not_undone', 'not_promoted'))
       + (select coalesce(sum(u.rows), 0) from pg_temp.verify_unread u) as gaps`,
  );
  return Number(rows[0]!.gaps);
}
