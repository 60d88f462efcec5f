import type { Column, Target } from '../change/target.ts';
import { userColumns } from '../change/target.ts';
import { closest } from '../config/closest.ts';
import { EmendError } from '../errors.ts';

export interface KeyCondition {
  readonly column: Column;
  readonly value: string;
}

/**
 * What `--key` arguments say: `column=value`, or the value alone where the key has one column. Such a value may contain `=`,
 * unless what is before it names another column, or nearly the key column: that is a mistake more often.
 *
 * @throws EmendError `bad_arguments`
 */
export function keyConditions(target: Target, given: readonly string[]): KeyCondition[] {
  const [only] = target.key;
  const names = target.key.map((candidate) => candidate.name);
  return given.map((text) => {
    const [, name, value] = /^([^=]*)=(.*)$/s.exec(text) ?? [];
    const column = target.key.find((candidate) => candidate.name === name);
    if (column && value !== undefined) return { column, value };
    const isMistake =
      name !== undefined &&
      (userColumns(target).some((other) => other.name === name) || closest(name, names) !== null);
    if (target.key.length === 1 && only && !isMistake) return { column: only, value: text };
    throw new EmendError('bad_arguments', `--key ${text} does not name a key column of ${target.name}`, {
      remedy: `Write ${names.map((each) => `--key ${each}=…`).join(' ')}`,
    });
  });
}

/** The values of the whole key, in the order of its columns. */
export function wholeKey(target: Target, given: readonly string[]): string[] {
  const conditions = keyConditions(target, given);
  return target.key.map((column) => {
    const found = conditions.find((condition) => condition.column === column);
    if (found) return found.value;
    throw new EmendError('bad_arguments', `--key ${column.name}=… is missing`, {
      remedy: `Write ${target.key.map(({ name }) => `--key ${name}=…`).join(' ')}`,
    });
  });
}
