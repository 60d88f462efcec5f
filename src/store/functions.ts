import { ident, identList, literal } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import type { Target, TimelineTarget } from '../change/target.ts';
import { ownObject, targetTable } from './names.ts';
import type { OwnSuffix } from './names.ts';
import { toAxis } from './period-form.ts';
import { periodsQuery, presentColumns } from './views.ts';

/**
 * The functions of temporal questions. Their form is what lets the planner inline them, so that a lateral join uses the
 * key index: language sql, stable, not strict, no `set`, `returns setof` a row type, and parameters only as `$1, $2` (a
 * parameter named like a column silently means the column).
 */
export function readingFunctions(target: Target, columns: readonly string[]): Statement[] {
  const present = `select ${presentColumns(columns)}\nfrom ${targetTable(target)}`;
  const told = `select ${identList(columns)}\nfrom ${ownObject(target, 'told')}`;
  const statements = [
    define(target, 'as_of', '', present, 'What is believed now.'),
    define(
      target,
      'as_of',
      'known_at timestamptz',
      `${told}\nwhere ${knownAt(target, '$1')}`,
      'What was believed at known_at, row for row.',
    ),
  ];
  if (target.kind === 'timeline') {
    const axis = target.period.from.type;
    statements.push(
      define(
        target,
        'at',
        `valid_at ${axis}`,
        `${present}\nwhere ${validAt(target)}`,
        'What holds at valid_at, as believed now.',
      ),
      define(
        target,
        'at',
        `valid_at ${axis}, known_at timestamptz`,
        `${told}\nwhere ${validAt(target)}\n  and ${knownAt(target, '$2')}`,
        'What holds at valid_at, as was believed at known_at.',
      ),
      definePeriodsAsOf(target),
    );
  }
  return statements.flat();
}

function validAt({ period }: TimelineTarget): string {
  return `${ident(period.from.name)} <= $1 and $1 < ${toAxis(period, ident(period.to.name))}`;
}

/** Law 4: only a settled time has an answer. As a sub-select it is asked once a statement; a left join asked it once a row. */
function knownAt(target: Target, parameter: string): string {
  return `_known_from <= ${parameter} and ${parameter} < _known_to and (select emend.require_known(${parameter}, ${literal(target.name)}))`;
}

function define(
  target: Target,
  suffix: OwnSuffix,
  parameters: string,
  body: string,
  comment: string,
): Statement[] {
  return defineReturning(target, suffix, parameters, `setof ${ownObject(target, 'told')}`, body, comment);
}

function definePeriodsAsOf(target: TimelineTarget): Statement[] {
  const body = periodsQuery(target, `${ownObject(target, 'as_of')}($1)`);
  const returns = `setof ${ownObject(target, 'periods')}`;
  return defineReturning(
    target,
    'periods_as_of',
    'known_at timestamptz',
    returns,
    body,
    'The periods that were believed at known_at.',
  );
}

function defineReturning(
  target: Target,
  suffix: OwnSuffix,
  parameters: string,
  returns: string,
  body: string,
  comment: string,
): Statement[] {
  const signature = `${ownObject(target, suffix)}(${parameters})`;
  return [
    {
      purpose: `question: ${target.name}_${suffix}(${parameters})`,
      sql: `create or replace function ${signature}\nreturns ${returns}\nlanguage sql stable\nas $emend$\n${body}\n$emend$`,
    },
    {
      purpose: `what ${target.name}_${suffix} answers`,
      sql: `comment on function ${signature} is '${comment}'`,
    },
  ];
}
