import { paintTimeline } from '../data/painted-timeline.ts';
import { timelineColumns, timelineLayout } from '../data/price-timeline.ts';
import type { TimelineShape } from '../data/price-timeline.ts';
import type { Contestant } from '../harness/contestant.ts';
import { piecesPerKey } from '../data/corrections.ts';
import type { Correction } from '../data/corrections.ts';
import { emendMerge } from './emend-merge.ts';

/** Each correction replaces about one and a half pieces by two and a half. */
export function emendTimeline(
  name: string,
  shape: TimelineShape,
  batches: { batchRows: number; atMostRows?: number },
): Contestant<Correction[]> {
  return emendMerge(name, {
    ...batches,
    layout: timelineLayout(shape),
    firstRows: shape.keys * piecesPerKey,
    columns: timelineColumns(shape.form),
    expected: () => paintTimeline(shape.keys, shape.form),
  });
}
