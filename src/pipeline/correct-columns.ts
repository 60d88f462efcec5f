import type { ClientBase } from 'pg';
import type { Column, Target } from '../change/target.ts';
import { statedColumns } from '../change/target.ts';
import type { TargetConfig } from '../config/define-config.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { targetNameOf } from '../config/target-name.ts';
import { ident } from '../db/identifier.ts';
import { withClient } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { readAppendColumns } from '../log/append-columns.ts';
import type { AppendColumn } from '../log/append-columns.ts';
import { insertStatements } from '../log/append-statement.ts';
import { runQuery } from '../log/executor.ts';
import type { Executor } from '../log/executor.ts';
import { textOf } from '../log/value-text.ts';
import { ownObject, targetTable } from '../store/names.ts';
import { fromAxis, openEnd, toAxis } from '../store/period-form.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import { explainQueryError } from './at.ts';
import { openStore } from './connections.ts';
import { findTarget } from './find-target.ts';
import { waitUntilMerged } from './wait.ts';

/** Names are those of the columns. */
export interface ColumnCorrection {
  readonly key: Readonly<Record<string, unknown>>;
  /** Timelines: from here, default the beginning of time. */
  readonly from?: string;
  /** Timelines: until here, in the form of the table, default without end. What lies outside stays as it is. */
  readonly to?: string;
  readonly set: Readonly<Record<string, unknown>>;
  /** Refuse when another correction than this one stands there: the `_version` that the caller saw. */
  readonly expectedVersion?: string;
  readonly reason?: string;
}

/**
 * "Only the price, keep the rest": a correction is a whole row, so this reads what is believed over the period and writes one
 * whole-row correction a piece. Waits first until everything committed is merged; calls for one key wait for each other.
 *
 * The race that remains: a plain correction of the same key that is committed between the reading and the commit of `tx` is
 * not seen, and its other columns are stated again as they were before. `expectedVersion` refuses what changed before the reading.
 *
 * In a timeline of starts a start holds until the next: where what stood runs on beyond `to`, it is written again as a start there.
 *
 * @returns the `_id`s written, in the order of the periods
 * @throws EmendError `bad_arguments` for an empty `set`, or a `from` that is not before `to`; `correction_invalid` when nothing
 *   is there, or another version than expected is
 */
export async function correctColumns(
  config: ResolvedConfig,
  tx: Executor,
  targetConfig: TargetConfig,
  correction: ColumnCorrection,
): Promise<string[]> {
  if (Object.keys(correction.set).length === 0) {
    throw new EmendError('bad_arguments', 'set names no column, so nothing would be corrected', {
      remedy: 'Name the columns to change, with their new values.',
    });
  }
  const declaration = findTarget(config.targets, targetNameOf(targetConfig) ?? '');
  const name = declaration.name;
  const lock = `emend correct ${name} ${JSON.stringify(correction.key)}`;
  await runQuery(tx, {
    texts: ['select pg_advisory_xact_lock(hashtextextended(', '::text, 0))'],
    values: [lock],
  });
  await waitUntilMerged({ config, timeoutMs: 30_000 });
  const store = await openStore(config, { role: 'correct', max: 1 });
  try {
    return await withClient(store, async (client) => {
      const [target] = await resolveTargets(client, [declaration]);
      await refuseEmptyPeriod(client, target!, correction);
      const pieces = await readPieces(client, target!, correction);
      refuseOthers(target!, pieces, correction);
      await refuseOutranked(client, target!, pieces, correction);
      return writePieces(tx, target!, pieces, correction);
    });
  } finally {
    await store.end();
  }
}

/** `_runs_on`: the end of the period that is corrected, where the piece that stands goes on behind it. */
type Piece = Readonly<Record<string, string | null>>;

async function refuseEmptyPeriod(
  client: ClientBase,
  target: Target,
  { from, to }: ColumnCorrection,
): Promise<void> {
  if (target.kind === 'facts' || from === undefined || to === undefined) return;
  const { period } = target;
  const until = toAxis(period, `$2::${period.to.baseType}`);
  const { rows } = await client
    .query<{ empty: string }>(
      `select case when $1::${period.from.baseType} < ${until} then 'no' else 'yes' end as empty`,
      [from, to],
    )
    .catch((error: unknown) => {
      throw explainQueryError(error, target) ?? error;
    });
  if (rows[0]?.empty === 'no') return;
  throw new EmendError('bad_arguments', `${target.name}: from is not before to, so the period is empty`, {
    remedy: `Give a from that is before to${period.closed ? ', or the same: its ends belong to the period' : ''}.`,
  });
}

async function readPieces(
  client: ClientBase,
  target: Target,
  { key, from, to }: ColumnCorrection,
): Promise<Piece[]> {
  const values: (string | null)[] = [];
  const parameter = (text: string | null, type: string) => `$${values.push(text)}::${type}`;
  const isKey = target.key.map(
    (column) =>
      `p.${ident(column.name)} ${column.equals} ${parameter(text(asLogColumn(column), key[column.name]), column.baseType)}`,
  );
  const columns = [...target.key, ...target.values].map(({ name }) => `p.${ident(name)}`);
  if (target.kind === 'facts') {
    const { rows } = await client.query<Piece>(
      `select ${columns.join(', ')}, p._version from ${targetTable(target)} p where ${isKey.join(' and ')}`,
      values,
    );
    return rows;
  }
  const { period } = target;
  const [f, t] = [`p.${ident(period.from.name)}`, toAxis(period, `p.${ident(period.to.name)}`)];
  const since = from === undefined ? f : `greatest(${f}, ${parameter(from, period.from.baseType)})`;
  const until = to === undefined ? openEnd(period) : toAxis(period, parameter(to, period.to.baseType));
  const { rows } = await client.query<Piece>(
    `select ${columns.join(', ')}, ${since} as ${ident(period.from.name)},
       ${fromAxis(period, `least(${t}, ${until})`)} as ${ident(period.to.name)}, p._version,
       case when ${t} > ${until} then ${until} end as _runs_on
     from ${targetTable(target)} p
     where ${isKey.join(' and ')} and ${since} < least(${t}, ${until})
     order by ${f}`,
    values,
  );
  return rows;
}

function refuseOthers(target: Target, pieces: readonly Piece[], { expectedVersion }: ColumnCorrection): void {
  if (pieces.length === 0) {
    throw new EmendError(
      'correction_invalid',
      `${target.name}: nothing is there for this key and period, so there is no rest to keep`,
      {
        remedy: 'State the whole row with correct().',
      },
    );
  }
  const other = pieces.find((piece) => expectedVersion !== undefined && piece._version !== expectedVersion);
  if (!other) return;
  throw new EmendError(
    'correction_invalid',
    `${target.name}: version ${other._version} stands there, not ${expectedVersion}`,
    {
      remedy:
        'Somebody corrected it meanwhile: look at it again, then repeat the call with the version that you saw.',
    },
  );
}

/**
 * Starts with a version of their own: where one was withdrawn under a higher version than the row that runs on over it, what
 * would be written there loses, and nobody would be told.
 */
async function refuseOutranked(
  client: ClientBase,
  target: Target,
  pieces: readonly Piece[],
  { key, set }: ColumnCorrection,
): Promise<void> {
  if (target.kind === 'facts' || target.mode === 'override' || !target.version) return;
  const { from } = target.period;
  const { name, baseType } = target.version;
  const given = name in set ? text(asLogColumn(target.version), set[name]) : undefined;
  const starts = [
    ...pieces.map((piece) => ({ start: piece[from.name]!, version: given ?? piece[name]! })),
    ...startBehind(target, pieces).map((piece) => ({ start: piece[from.name]!, version: piece[name]! })),
  ];
  const isKey = target.key.map(
    (column, index) => `w.${ident(column.name)} ${column.equals} $${index + 3}::${column.baseType}`,
  );
  const { rows } = await client.query<{ start: string; version: string }>(
    `select w.${ident(from.name)}::text as start, w.${ident(name)}::text as version
     from unnest($1::${from.baseType}[], $2::${baseType}[]) as written (start, version)
     join ${ownObject(target, 'tombstone')} w on w.${ident(from.name)} = written.start and w.${ident(name)} > written.version
     where w._known_to = 'infinity' and ${isKey.join(' and ')}
     limit 1`,
    [
      starts.map(({ start }) => start),
      starts.map(({ version }) => version),
      ...target.key.map((column) => text(asLogColumn(column), key[column.name])),
    ],
  );
  const [higher] = rows;
  if (!higher) return;
  throw new EmendError(
    'correction_invalid',
    `${target.name}: a start at ${higher.start} was withdrawn with ${name} ${higher.version}, which is higher than that of the row to be written there`,
    { remedy: `Set a higher ${name} in the same call, or write the starts with correct().` },
  );
}

async function writePieces(
  tx: Executor,
  target: Target,
  pieces: readonly Piece[],
  { set, reason }: ColumnCorrection,
): Promise<string[]> {
  const stated = statedColumns(target);
  for (const column of Object.keys(set)) refuseColumn(target, column);
  const columns = (await readAppendColumns(tx, target.name)).filter((column) =>
    stated.some(({ name }) => name === column.name),
  );
  const rest = startBehind(target, pieces);
  const byColumn = columns.map((column) => ({
    column,
    texts: [
      ...pieces.map((piece) =>
        column.name in set ? text(column, set[column.name]) : (piece[column.name] ?? null),
      ),
      ...rest.map((piece) => piece[column.name] ?? null),
    ],
    defaulted: null,
  }));
  const ids: string[] = [];
  for (const statement of insertStatements(target.name, byColumn, {
    op: 'upsert',
    ...(reason === undefined ? {} : { reason }),
  })) {
    for (const row of await runQuery<{ _id: string }>(tx, statement)) ids.push(row._id);
  }
  return ids;
}

/** The start that gives back what stood, where each holds until the next. A piece that ends at `to` has a start there already. */
function startBehind(target: Target, pieces: readonly Piece[]): Piece[] {
  if (target.kind === 'facts' || target.mode === 'override') return [];
  return pieces.flatMap((piece) =>
    typeof piece._runs_on === 'string' ? [{ ...piece, [target.period.from.name]: piece._runs_on }] : [],
  );
}

function refuseColumn(target: Target, name: string): void {
  if (target.values.some((column) => column.name === name)) return;
  throw new EmendError('correction_invalid', `${target.name} has no value column ${ident(name)}`, {
    remedy: `Its value columns are: ${target.values.map((column) => column.name).join(', ')}.`,
  });
}

function text(column: AppendColumn, value: unknown): string | null {
  return textOf(value, { column, row: 0, property: column.name });
}

function asLogColumn({ name, baseType }: Column): AppendColumn {
  return { name, type: baseType, defaultSql: null };
}
