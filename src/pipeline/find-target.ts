import { closest } from '../config/closest.ts';
import type { TargetDeclaration } from '../config/target-declaration.ts';
import { EmendError } from '../errors.ts';

/** @throws EmendError `target_unknown`, with the name that was probably meant */
export function findTarget(targets: readonly TargetDeclaration[], name: string): TargetDeclaration {
  const found = targets.find((target) => target.name === name);
  if (found) return found;
  const names = targets.map((target) => target.name);
  const meant = closest(name, names);
  throw new EmendError('target_unknown', `there is no target ${name}`, {
    remedy: meant ? `Did you mean ${meant}?` : `The targets are: ${names.join(', ')}.`,
  });
}
