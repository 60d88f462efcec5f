import type { ConstraintInfo, IndexInfo, TableInfo } from '../db/catalogue.ts';
import { ident } from '../db/identifier.ts';
import type { TargetDeclaration } from '../config/target-declaration.ts';
import type { Problem } from '../errors.ts';

/**
 * Constraints under which the order of delivery would decide what is in the table (REVIEW F10): of two rows with one
 * email the first would win; the remainder of a split piece may break a CHECK on its period. Laws 1 to 4 cannot hold
 * then, so they are refused unless the user allows them by name.
 */
export function checkConstraints(declaration: TargetDeclaration, table: TableInfo): Problem[] {
  return [
    ...table.uniqueIndexes
      .filter((index) => !isIdentity(declaration, index))
      .filter((index) => !declaration.allow.includes(index.name))
      .map((index) =>
        problem(
          declaration,
          table,
          index.name,
          `unique index ${ident(index.name)} is not on the natural key`,
        ),
      ),
    ...table.constraints
      .filter((constraint) => constraint.type === 'x' && !declaration.allow.includes(constraint.name))
      .filter((constraint) => constraint.name !== exclusionName(declaration.name))
      .map(({ name }) => problem(declaration, table, name, `exclusion constraint ${ident(name)}`)),
    ...table.constraints
      .filter(
        (constraint) =>
          isPeriodCheck(declaration, constraint) && !declaration.allow.includes(constraint.name),
      )
      .map(({ name, definition }) =>
        problem(declaration, table, name, `constraint ${ident(name)} looks at the period: ${definition}`),
      ),
  ];
}

/** The exclusion constraint that `exclusion: true` adds. */
export function exclusionName(target: string): string {
  return `emend_${target}_overlap`;
}

function problem(declaration: TargetDeclaration, table: TableInfo, name: string, what: string): Problem {
  return {
    path: `targets.${declaration.name}`,
    problem: `${what}, so results could depend on the order of delivery`,
    remedy: `Drop it from ${table.schema}.${table.name}, or accept that and write allow: ['${name}'].`,
  };
}

/** Facts are unique by key. Pieces of a timeline are unique by key and start, hence by anything that contains these. */
function isIdentity(declaration: TargetDeclaration, index: IndexInfo): boolean {
  const { key, period } = declaration;
  const columns = new Set(index.columns);
  if (period)
    return [...key, period.from].every((name) => columns.has(name)) || isKeyAndEnd(declaration, columns);
  return key.every((name) => columns.has(name));
}

function isKeyAndEnd({ key, period }: TargetDeclaration, columns: ReadonlySet<string | null>): boolean {
  return period !== null && [...key, period.to].every((name) => columns.has(name));
}

/** A CHECK over a period column, other than `from < to` in the form of the table, which always holds. */
function isPeriodCheck(
  { period }: TargetDeclaration,
  { type, columns, expression }: ConstraintInfo,
): boolean {
  if (type !== 'c' || !period || !columns.some((name) => name === period.from || name === period.to))
    return false;
  const plain = (expression ?? '').replaceAll(/[()\s"]/g, '');
  const before = period.closed ? '<=' : '<';
  const after = period.closed ? '>=' : '>';
  const alwaysHolds = [`${period.from}${before}${period.to}`, `${period.to}${after}${period.from}`];
  const orOpen = alwaysHolds.flatMap((check) => [
    `${period.to}ISNULLOR${check}`,
    `${check}OR${period.to}ISNULL`,
  ]);
  return ![...alwaysHolds, ...(period.openEnd === null ? orOpen : [])].includes(plain);
}
