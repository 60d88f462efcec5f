import { checkPeriod } from './check-period.ts';
import { ColumnReader } from './column-reader.ts';
import { ownNames } from './own-names.ts';
import { isDrizzleTable, isIdentifier, tableName } from './table-ref.ts';
import { kindOf } from './findings.ts';
import type { Findings } from './findings.ts';
import type { TargetDeclaration } from './target-declaration.ts';

/** Longer names would not leave room for emend's suffixes within the 63 bytes of an identifier. */
const targetName = /^[a-z][a-z0-9_]{0,46}$/;
const ownSchemas = ['corrections', 'emend', 'emend_queue', 'pg_catalog', 'information_schema'];

const commonOptions = ['kind', 'table', 'key', 'version', 'promote', 'allow'];
const optionsByKind = {
  facts: [...commonOptions, 'eventTime'],
  timeline: [...commonOptions, 'period', 'mode', 'openEnd', 'closed', 'exclusion'],
};

export function checkTargets(input: unknown, findings: Findings): TargetDeclaration[] {
  const remedy = "Write: targets: { prices: timeline('public.prices', { key: […], period: […, …] }) }";
  const targets = findings.object(input, 'targets', remedy);
  if (!targets) return [];
  if (Object.keys(targets).length === 0) findings.add('targets', 'names no target', remedy);
  const declarations = Object.entries(targets).flatMap(
    ([name, value]) => checkTarget(name, value, findings) ?? [],
  );
  refuseSharedTables(declarations, findings);
  refuseSharedNames(declarations, findings);
  return declarations;
}

function checkTarget(name: string, input: unknown, findings: Findings): TargetDeclaration | null {
  const path = `targets.${name}`;
  if (!targetName.test(name)) {
    findings.add(
      path,
      'is not a name for a target',
      'Use up to 47 of a-z, 0-9 and _, beginning with a letter.',
    );
  }
  const target = findings.object(input, path, `Write: ${name}: facts('public.${name}', { key: […] })`);
  if (!target) return null;
  const kind = target['kind'];
  if (kind !== 'facts' && kind !== 'timeline') {
    findings.add(
      path,
      'is neither facts() nor timeline()',
      `Write: ${name}: facts('public.${name}', { key: […] })`,
    );
    return null;
  }
  findings.unknownKeys(target, optionsByKind[kind], path);
  const table = checkTable(target['table'], path, findings);
  const columns = new ColumnReader(path, target['table'], findings);
  const declaration: TargetDeclaration = {
    name,
    kind,
    schema: table?.schema ?? '',
    table: table?.table ?? '',
    key: columns.key(target['key']),
    period: kind === 'timeline' ? checkPeriod(target, columns, findings) : null,
    eventTime: columns.one(target['eventTime'], 'eventTime'),
    version: columns.one(target['version'], 'version'),
    exclusion: findings.boolean(target['exclusion'], `${path}.exclusion`),
    allow:
      target['allow'] === undefined
        ? []
        : findings.names(target['allow'], `${path}.allow`, "allow: ['constraint_name']"),
  };
  refuseKeyAsOther(declaration, path, findings);
  return declaration;
}

function checkTable(
  ref: unknown,
  path: string,
  findings: Findings,
): { schema: string; table: string } | null {
  const remedy = `Name it as 'schema.table' (or 'table' for one in public), or give a Drizzle table. A name with a space or a dot stands in double quotes: 'public."My Table"'.`;
  const isRef = typeof ref === 'string' || isDrizzleTable(ref);
  const name = isRef ? tableName(ref) : null;
  if (!name) {
    findings.add(
      path,
      typeof ref === 'string' ? `'${ref}' is not a table name` : `its table is ${kindOf(ref)}`,
      remedy,
    );
    return null;
  }
  for (const part of [name.schema, name.table]) {
    if (!isIdentifier(part))
      findings.add(path, `'${part}' cannot be a name in Postgres`, 'Use 1 to 63 bytes.');
  }
  if (ownSchemas.includes(name.schema)) {
    findings.add(
      path,
      `schema ${name.schema} is not for targets`,
      'Put the table into a schema of your own.',
    );
  }
  return name;
}

/** A key names the thing; when it is valid and how corrections are ordered are other questions. */
function refuseKeyAsOther(
  { key, period, version }: TargetDeclaration,
  path: string,
  findings: Findings,
): void {
  const others = [
    { option: 'period', columns: period ? [period.from, period.to] : [] },
    { option: 'version', columns: version ? [version] : [] },
  ];
  for (const { option, columns } of others) {
    for (const name of columns.filter((column) => key.includes(column))) {
      findings.add(
        `${path}.${option}`,
        `column ${name} is part of the key as well`,
        `Name it in key or in ${option}.`,
      );
    }
  }
}

/** Each target would take the other's rows for its own. */
function refuseSharedTables(declarations: readonly TargetDeclaration[], findings: Findings): void {
  const firstByTable = new Map<string, string>();
  for (const { name, schema, table } of declarations.filter((each) => each.table !== '')) {
    const id = JSON.stringify([schema, table]);
    const first = firstByTable.get(id);
    if (first === undefined) firstByTable.set(id, name);
    else {
      findings.add(
        `targets.${name}`,
        `has the same table as targets.${first}: ${schema}.${table}`,
        'Give each target a table of its own.',
      );
    }
  }
}

/** `c_periods` and the timeline `c` would both have a function `emend.c_periods_as_of`. */
function refuseSharedNames(declarations: readonly TargetDeclaration[], findings: Findings): void {
  const firstByName = new Map<string, string>();
  for (const { name, kind } of declarations) {
    const own = ownNames(name, kind);
    const taken = own.find((each) => firstByName.has(each));
    for (const each of own) if (!firstByName.has(each)) firstByName.set(each, name);
    if (taken === undefined) continue;
    findings.add(
      `targets.${name}`,
      `its name and that of targets.${firstByName.get(taken)} are too much alike: both would have emend.${taken}`,
      'Give one of the two targets another name; that of its table may stay.',
    );
  }
}
