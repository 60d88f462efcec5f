import type { Problem } from '../errors.ts';
import { closest } from './closest.ts';

/** Collects problems while a configuration is read, so that all are told at once. */
export class Findings {
  readonly problems: Problem[] = [];

  add(path: string, problem: string, remedy: string): void {
    this.problems.push({ path, problem, remedy });
  }

  /** The value as an object, or null and a problem. */
  object(value: unknown, path: string, remedy: string): Record<string, unknown> | null {
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>;
    this.add(path, `is ${kindOf(value)}, not an object`, remedy);
    return null;
  }

  /** Options nobody reads: most often a typo, and the default would be taken in silence. */
  unknownKeys(value: Record<string, unknown>, known: readonly string[], path: string): void {
    for (const name of Object.keys(value).filter((key) => !known.includes(key))) {
      const meant = closest(name, known);
      const remedy = meant ? `Did you mean ${meant}?` : `Known here: ${known.join(', ')}.`;
      this.add(path ? `${path}.${name}` : name, 'is not an option of emend', remedy);
    }
  }

  boolean(value: unknown, path: string): boolean {
    if (value === undefined || typeof value === 'boolean') return value ?? false;
    this.add(path, `is ${kindOf(value)}, not true or false`, 'Write true or false, or leave it out.');
    return false;
  }

  /** A list of names without repetition. */
  names(value: unknown, path: string, example: string): string[] {
    const isList = Array.isArray(value) && value.every((name) => typeof name === 'string' && name !== '');
    if (!isList) {
      const problem = Array.isArray(value)
        ? 'holds something that is not a name'
        : `is ${kindOf(value)}, not a list of names`;
      this.add(path, problem, `Write it as in ${example}.`);
      return [];
    }
    const names = value as string[];
    const repeated = names.find((name, index) => names.indexOf(name) !== index);
    if (repeated !== undefined) this.add(path, `names ${repeated} twice`, 'Name each once.');
    return names;
  }
}

/** What stands there, without showing it: it may be a secret. */
export function kindOf(value: unknown): string {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  if (value === '') return 'empty';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
