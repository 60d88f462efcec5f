import type { ClientBase } from 'pg';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { userColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { ident, identList, qualified } from '../db/identifier.ts';
import { sqlState } from '../db/sqlstate.ts';
import { withClient } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { resolveTargets } from '../store/resolve-targets.ts';
import { openStore } from './connections.ts';
import { findTarget } from './find-target.ts';
import { requireInstall } from './install.ts';
import { keyConditions } from './key-arguments.ts';
import type { KeyCondition } from './key-arguments.ts';

export interface AtQuestion {
  readonly target: string;
  /** `column=value`, or the value alone where the key has one column. */
  readonly key: readonly string[];
  /** Left out: the present moment, for a timeline whose axis is time. */
  readonly validAt?: string | undefined;
  /** Left out: as believed now. */
  readonly knownAt?: string | undefined;
  readonly limit: number;
}

export interface AtAnswer {
  readonly target: string;
  readonly validAt: string | null;
  readonly knownAt: string | null;
  readonly columns: readonly string[];
  /** The server's own texts. */
  readonly rows: readonly Readonly<Record<string, string | null>>[];
  /** Whether more rows than `limit` answer the question. */
  readonly more: boolean;
}

/** What is believed of a target, at an instant of valid time and as known at a time, by the store's own functions. */
export async function askAt(config: ResolvedConfig, question: AtQuestion): Promise<AtAnswer> {
  const declaration = findTarget(config.targets, question.target);
  const store = await openStore(config, { role: 'at', max: 1 });
  try {
    await requireInstall(store);
    return await withClient(store, async (client) => {
      const [target] = await resolveTargets(client, [declaration]);
      return ask(client, target!, question);
    });
  } finally {
    await store.end();
  }
}

async function ask(client: ClientBase, target: Target, question: AtQuestion): Promise<AtAnswer> {
  const validAt = await chooseValidAt(client, target, question.validAt);
  const knownAt = question.knownAt ?? null;
  const { sql, values } = atQuery(
    target,
    keyConditions(target, question.key),
    validAt,
    knownAt,
    question.limit,
  );
  try {
    const { rows, fields } = await client.query<Record<string, string | null>>(sql, values);
    return {
      target: target.name,
      validAt,
      knownAt,
      columns: fields.map((field) => field.name),
      rows: rows.slice(0, question.limit),
      more: rows.length > question.limit,
    };
  } catch (error) {
    throw explainQueryError(error, target) ?? error;
  }
}

/** The present is a fine question; it never becomes data. */
async function chooseValidAt(
  client: ClientBase,
  target: Target,
  given: string | undefined,
): Promise<string | null> {
  if (target.kind === 'facts') {
    if (given === undefined) return null;
    throw new EmendError('bad_arguments', `target ${target.name} has no valid time: it holds facts`, {
      remedy: 'Leave --valid-at out.',
    });
  }
  if (given !== undefined) return given;
  const { type } = target.period.from;
  if (type === 'integer' || type === 'bigint') {
    throw new EmendError(
      'bad_arguments',
      `the valid time of ${target.name} is ${type}, which has no present`,
      {
        remedy: 'Give the instant with --valid-at.',
      },
    );
  }
  const { rows } = await client.query<{ now: string }>(`select now()::${type}::text as now`);
  return rows[0]!.now;
}

/** Arguments are parameters, never expressions: with a sub-select or a clock call the planner would not inline the function. */
function atQuery(
  target: Target,
  conditions: readonly KeyCondition[],
  validAt: string | null,
  knownAt: string | null,
  limit: number,
): { sql: string; values: (string | number)[] } {
  const values: (string | number)[] = [];
  const parameter = (value: string | number, type: string): string => `$${values.push(value)}::${type}`;
  const call = [
    ...(validAt !== null && target.kind === 'timeline' ? [parameter(validAt, target.period.from.type)] : []),
    ...(knownAt === null ? [] : [parameter(knownAt, 'timestamptz')]),
  ];
  const source = qualified('emend', `${target.name}_${target.kind === 'timeline' ? 'at' : 'as_of'}`);
  const where = conditions.map(
    ({ column, value }) => `${ident(column.name)} ${column.equals} ${parameter(value, column.baseType)}`,
  );
  const names = [...userColumns(target).map((column) => column.name), '_version', '_known_from', '_known_to'];
  const order = target.key.map((column) => column.name);
  const sql = [
    `select ${identList(names)}`,
    `from ${source}(${call.join(', ')})`,
    ...(where.length > 0 ? [`where ${where.join('\n  and ')}`] : []),
    `order by ${identList(order)}`,
    `limit ${parameter(limit + 1, 'bigint')}`,
  ].join('\n');
  return { sql, values };
}

/** What an error of a question means for who asked it, or null for one that is not the question's fault. */
export function explainQueryError(error: unknown, target: Target): EmendError | null {
  const code = sqlState(error) ?? '';
  const { message, hint } = error as { message: string; hint?: string };
  if (code === '55000')
    return new EmendError('not_settled', message, { remedy: hint ?? 'Ask about an earlier time.' });
  if (code === '42883' || code === '42P01') {
    return new EmendError('not_migrated', `target ${target.name} has not been migrated`, {
      remedy: 'Run emend migrate.',
      cause: error,
    });
  }
  if (code.startsWith('22')) {
    return new EmendError('bad_arguments', message, {
      remedy: `Give values that ${target.name} can hold: ${describeTypes(target)}.`,
    });
  }
  return null;
}

function describeTypes(target: Target): string {
  const key = target.key.map((column) => `${column.name} is ${column.type}`);
  return [...key, ...(target.kind === 'timeline' ? [`valid time is ${target.period.from.type}`] : [])].join(
    ', ',
  );
}
