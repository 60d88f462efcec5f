import type { ClientBase } from 'pg';
import { ident, literal, qualified } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import { statedColumns } from '../change/target.ts';
import type { Target } from '../change/target.ts';
import { EmendError } from '../errors.ts';
import { findTypes, readUsedTypes } from './type-catalogue.ts';
import type { TypeInfo } from './type-catalogue.ts';

/**
 * The types of the target's columns that the source lacks, made as the store has them: enums, domains, composites,
 * ranges, and extensions that bring types. A text is cast on both sides, and must mean the same on both (law 9).
 *
 * @throws EmendError `target_invalid` for a type that exists in the source and is another one
 */
export async function planTypes(source: ClientBase, store: ClientBase, target: Target): Promise<Statement[]> {
  const names = statedColumns(target).map((column) => column.name);
  const used = await readUsedTypes(store, target.schema, target.table, names);
  const present = await findTypes(source, used);
  const missing = used.filter((type) => !present.has(typeName(type)));
  return [
    ...(await planSchemas(source, missing)),
    ...uniqueExtensions(missing).map(createExtension),
    ...missing.filter((type) => type.extension === null).map((type) => createType(target, type)),
    ...used.flatMap((type) => {
      const other = present.get(typeName(type));
      return other ? bringInStep(target, type, other) : [];
    }),
  ];
}

function typeName(type: Pick<TypeInfo, 'schema' | 'name'>): string {
  return qualified(type.schema, type.name);
}

async function planSchemas(source: ClientBase, types: readonly TypeInfo[]): Promise<Statement[]> {
  const { rows } = await source.query<{ name: string }>(
    `select distinct s.name from unnest($1::text[]) as s (name) where to_regnamespace(quote_ident(s.name)) is null order by s.name`,
    [types.map((type) => type.schema)],
  );
  return rows.flatMap(({ name }) => [
    { purpose: 'schema of types', sql: `create schema ${ident(name)}` },
    // whoever writes a correction casts to its types
    { purpose: 'types are for everybody', sql: `grant usage on schema ${ident(name)} to public` },
  ]);
}

function uniqueExtensions(types: readonly TypeInfo[]): { extension: string; schema: string }[] {
  const schemas = new Map(
    types.flatMap(({ extension, schema }) => (extension === null ? [] : [[extension, schema]])),
  );
  return [...schemas].map(([extension, schema]) => ({ extension, schema }));
}

function createExtension({ extension, schema }: { extension: string; schema: string }): Statement {
  return {
    purpose: `extension with a type of the store`,
    sql: `create extension if not exists ${ident(extension)} with schema ${ident(schema)}`,
  };
}

function createType(target: Target, type: TypeInfo): Statement {
  if (type.definition === null) {
    throw invalid(
      target,
      `the source has no type ${typeName(type)}, and emend cannot copy a type of its kind`,
      'Create the type in the source as it is in the store, or use another type for the column.',
    );
  }
  const labels = type.labels ? ` (${type.labels.map(literal).join(', ')})` : '';
  return { purpose: `type of ${target.name}`, sql: type.definition + labels };
}

/** Enum labels are added in the place that the store has them in; any other difference is for a person to judge. */
function bringInStep(target: Target, type: TypeInfo, other: TypeInfo): Statement[] {
  if (type.definition !== other.definition || type.extension !== other.extension) {
    throw invalid(
      target,
      `type ${typeName(type)} of the source is not that of the store: ${describe(other)}, and ${describe(type)} there`,
      'Make both the same.',
    );
  }
  if (!type.labels || !other.labels) return [];
  const { labels } = type;
  const unknown = other.labels.filter((label) => !labels.includes(label));
  if (unknown.length > 0) {
    throw invalid(
      target,
      `type ${typeName(type)} of the source has labels that the store lacks: ${unknown.join(', ')}`,
      `The store takes new labels first: ${unknown.map((label) => `alter type ${typeName(type)} add value ${literal(label)};`).join(' ')}`,
    );
  }
  const known = new Set(other.labels);
  return labels.flatMap((label, place) => {
    if (known.has(label)) return [];
    const first = other.labels?.[0];
    const before = place === 0 && first !== undefined ? ` before ${literal(first)}` : '';
    const position = place > 0 ? ` after ${literal(labels[place - 1]!)}` : before;
    return [
      {
        purpose: `new label of ${type.name}`,
        sql: `alter type ${typeName(type)} add value if not exists ${literal(label)}${position}`,
      },
    ];
  });
}

function describe({ definition, extension }: TypeInfo): string {
  return extension === null ? (definition ?? 'of a kind of its own') : `of extension ${extension}`;
}

function invalid(target: Target, problem: string, remedy: string): EmendError {
  return new EmendError('target_invalid', `targets.${target.name}: ${problem}`, { remedy });
}
