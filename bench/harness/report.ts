import type { Comparison, Ratio } from './comparison.ts';
import type { Measured } from './measure.ts';
import { spreadOf } from './statistics.ts';
import type { Spread } from './statistics.ts';

export interface Result {
  readonly comparison: string;
  readonly title: string;
  /** Microseconds a row. */
  readonly figures: readonly (Measured & Spread)[];
  readonly ratios: readonly (Ratio & Spread & { readonly kept: boolean })[];
}

export function judge({ name, title, ratios }: Comparison, measured: readonly Measured[]): Result {
  const roundsOf = (contestant: string) => {
    const found = measured.find((candidate) => candidate.contestant === contestant);
    if (found) return found.rounds;
    throw new Error(`${name} asks about a contestant that it does not have: ${contestant}`);
  };
  return {
    comparison: name,
    title,
    figures: measured.map((figures) => ({ ...figures, ...spreadOf(figures.rounds) })),
    ratios: ratios.map((ratio) => {
      const to = roundsOf(ratio.to);
      const spread = spreadOf(roundsOf(ratio.of).map((figure, round) => figure / to[round]!));
      return { ...ratio, ...spread, kept: spread.median <= (ratio.atMost ?? Infinity) };
    }),
  };
}

/** As Markdown, so that it can go into the documentation as it is. */
export function table({ title, figures, ratios }: Result): string {
  return [
    `### ${title}`,
    '',
    '| | µs a row | spread | rows/s |',
    '| --- | ---: | --- | ---: |',
    ...figures.map(
      ({ contestant, median, low, high }) =>
        `| ${contestant} | ${median.toFixed(1)} | ${low.toFixed(1)} to ${high.toFixed(1)} | ${Math.round(1e6 / median)} |`,
    ),
    '',
    '| ratio | median | spread | at most |',
    '| --- | ---: | --- | --- |',
    ...ratios.map(
      ({ of, to, median, low, high, atMost, kept }) =>
        `| ${of} : ${to} | ${median.toFixed(2)} | ${low.toFixed(2)} to ${high.toFixed(2)} | ${bound(atMost, kept)} |`,
    ),
    '',
  ].join('\n');
}

function bound(atMost: number | undefined, kept: boolean): string {
  if (atMost === undefined) return '';
  return kept ? String(atMost) : `${atMost}, BROKEN`;
}
