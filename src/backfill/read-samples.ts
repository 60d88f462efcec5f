import { resolve } from 'node:path';
import { EmendError } from '../errors.ts';
import type { BackfillFile } from './backfill-file.ts';
import type { Sample } from './check-result.ts';
import type { SampleParts, SampleRow } from './define-backfill.ts';
import { readRows } from './read-rows.ts';
import type { FileRow } from './file-row.ts';
import { isInParts } from './stated-samples.ts';

/** What a sample is of. */
export interface SampledTarget {
  readonly name: string;
  readonly kind: 'facts' | 'timeline';
  readonly key: readonly string[];
}

/**
 * The samples of a backfill file, all values as text. In a file of samples, NDJSON or CSV, each line has the key's columns,
 * for timelines `valid_at`, and the columns to compare; `target` where the backfill has several, and `_op` is `retract` where
 * nothing may be there. A list has the same rows, or has key and values apart.
 *
 * @throws EmendError `bad_arguments` for a sample that is of no target, `correction_invalid` with the line that cannot be read
 */
export async function readSamples(file: BackfillFile, targets: readonly SampledTarget[]): Promise<Sample[]> {
  const { samples, folder } = file;
  if (typeof samples !== 'string')
    return samples.map((sample, at) => {
      const place = `checks.samples[${at}]`;
      return isInParts(sample) ? fromParts(sample, targets, place) : fromRow(asTexts(sample), targets, place);
    });
  const read: Sample[] = [];
  for await (const { line, values } of readRows(resolve(folder, samples)))
    read.push(fromRow(values, targets, `${samples}, line ${line}`));
  return read;
}

function fromParts(stated: SampleParts, targets: readonly SampledTarget[], place: string): Sample {
  const target = targetOf(stated.target, targets, place);
  return {
    target: target.name,
    key: asTexts(stated.key) as Sample['key'],
    ...(stated.validAt === undefined ? {} : { validAt: stated.validAt }),
    values: stated.values === null ? null : asTexts(stated.values),
  };
}

function asTexts(values: SampleRow): Record<string, string | null> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, value === null ? null : String(value)]),
  );
}

function fromRow(values: FileRow['values'], targets: readonly SampledTarget[], place: string): Sample {
  const target = targetOf(targets.length > 1 ? (values['target'] ?? '') : undefined, targets, place);
  const isInstant = (name: string): boolean => target.kind === 'timeline' && name === 'valid_at';
  const isOurs = (name: string): boolean =>
    name === '_op' || isInstant(name) || (targets.length > 1 && name === 'target');
  const pick = (isWanted: (name: string) => boolean): Record<string, string | null> =>
    Object.fromEntries(Object.entries(values).filter(([name]) => isWanted(name)));
  const instant = Object.entries(values).find(([name]) => isInstant(name))?.[1];
  const isNothing = values['_op'] === 'retract';
  return {
    target: target.name,
    key: pick((name) => target.key.includes(name)) as Sample['key'],
    ...(typeof instant === 'string' ? { validAt: instant } : {}),
    values: isNothing ? null : pick((name) => !target.key.includes(name) && !isOurs(name)),
  };
}

function targetOf(
  stated: string | undefined,
  targets: readonly SampledTarget[],
  place: string,
): SampledTarget {
  const found =
    stated === undefined && targets.length === 1 ? targets[0] : targets.find(({ name }) => name === stated);
  if (found) return found;
  throw new EmendError('bad_arguments', `${place}: the sample is of no target of this backfill`, {
    remedy: `Give target: one of ${targets.map(({ name }) => name).join(', ')}.`,
  });
}
