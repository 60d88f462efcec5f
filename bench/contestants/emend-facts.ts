import type { Correction } from '../data/corrections.ts';
import { expectFacts, factsColumns, factsLayout } from '../data/payment-facts.ts';
import type { FactsShape } from '../data/payment-facts.ts';
import type { Contestant } from '../harness/contestant.ts';
import { emendMerge } from './emend-merge.ts';

/** Each correction restates a row that is there already, so each writes a row of history too. */
export function emendFacts(
  name: string,
  shape: FactsShape,
  batches: { batchRows: number; atMostRows?: number },
): Contestant<Correction[]> {
  return emendMerge(name, {
    ...batches,
    layout: factsLayout(shape),
    firstRows: shape.rows,
    columns: factsColumns(shape.rows),
    expected: () => expectFacts(shape.rows),
  });
}
