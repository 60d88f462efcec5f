import type { Target } from '../change/target.ts';
import { applyTimeline } from './apply-timeline.ts';
import { applyFacts, factsFold } from './facts-merge.ts';
import type { FoldForm } from './fold-form.ts';
import { overrideFold } from './override-merge.ts';
import { untilNextFold } from './until-next-merge.ts';

/**
 * The fold of arrived rows into what stands of their keys, as common table expressions that change nothing:
 * - `fresh`: the rows that have an effect, `told`: K;
 * - `superseded`: standing rows that do not stay as they are, with `tableoid, ctid`;
 * - `pieces`: what stands from K on instead; for a timeline with its period as `_part_from, _part_to`.
 */
export function foldSql(target: Target, form: FoldForm): string {
  if (target.kind === 'facts') return factsFold(target, form);
  return target.mode === 'override' ? overrideFold(target, form) : untilNextFold(target, form);
}

/** The merge as one statement: the fold, and the writing of what it decides. */
export function mergeSql(target: Target, form: FoldForm): string {
  const apply = target.kind === 'facts' ? applyFacts(target) : applyTimeline(target);
  return `
    with
    ${foldSql(target, form)},
    ${apply}`;
}
