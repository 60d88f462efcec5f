import { kindOf } from '../config/findings.ts';
import type { Findings } from '../config/findings.ts';
import type { SampleParts, StatedSample } from './define-backfill.ts';

/** What `checks.samples` states: the name of a file, or a list. What no sample can be is told, each by its place. */
export function readStatedSamples(value: unknown, findings: Findings): string | readonly StatedSample[] {
  if (typeof value === 'string') return value;
  const path = 'checks.samples';
  if (value === undefined) return [];
  if (!Array.isArray(value)) {
    findings.add(path, `is ${kindOf(value)}`, 'Write a list, or the name of a file.');
    return [];
  }
  value.forEach((sample: unknown, place) => checkSample(sample, `${path}[${place}]`, findings));
  return value as StatedSample[];
}

/** With key and values apart: a column of either name holds no object. */
export function isInParts(sample: StatedSample): sample is SampleParts {
  return [sample['key'], sample['values']].some((part) => typeof part === 'object' && part !== null);
}

const shape = `Write a row, as in a file of samples: { route: 'AMS-JFK', valid_at: '2026-09-15', price: 120 }.`;

function checkSample(value: unknown, path: string, findings: Findings): void {
  const sample = findings.object(value, path, shape);
  if (!sample) return;
  if (!isInParts(sample as unknown as StatedSample)) return checkValues(sample, path, findings);
  findings.unknownKeys(sample, ['target', 'key', 'validAt', 'values'], path);
  const { key, values, ...others } = sample;
  const remedy = `${shape} Or { key: { … }, validAt, values: { … } }; values: null where nothing may be there.`;
  checkValues(findings.object(key, `${path}.key`, remedy) ?? {}, `${path}.key`, findings);
  if (values !== null)
    checkValues(findings.object(values, `${path}.values`, remedy) ?? {}, `${path}.values`, findings);
  checkValues(others, path, findings);
}

function checkValues(values: Readonly<Record<string, unknown>>, path: string, findings: Findings): void {
  for (const [name, value] of Object.entries(values))
    if (value !== null && !['string', 'number', 'boolean'].includes(typeof value))
      findings.add(
        `${path}.${name}`,
        `is ${kindOf(value)}, and has to be a single value`,
        'Write a text, a number, true, false or null.',
      );
}
