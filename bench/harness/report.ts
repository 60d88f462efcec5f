import type { Comparison, Ratio } from './comparison.ts';
import type { Measured } from './measure.ts';
import { spreadOf } from './statistics.ts';
import type { Spread } from './statistics.ts';

export interface Result {
  readonly comparison: string;
  readonly title: string;
  /** Microseconds a row, or the unit that stands there. */
  readonly figures: readonly (Measured & Spread)[];
  readonly ratios: readonly (Ratio & Spread & { readonly kept: boolean })[];
}

/** @param options `binds`: false for a quick run, whose figures are too small for that */
export function judge(
  { name, title, ratios }: Comparison,
  measured: readonly Measured[],
  { binds }: { readonly binds: boolean },
): Result {
  const roundsOf = (contestant: string) => {
    const found = measured.find((candidate) => candidate.contestant === contestant);
    if (found) return found.rounds;
    throw new Error(`${name} asks about a contestant that it does not have: ${contestant}`);
  };
  const isThere = ({ of, to = of }: Ratio) =>
    [of, to].every((asked) => measured.some(({ contestant }) => contestant === asked));
  return {
    comparison: name,
    title,
    figures: measured.map((figures) => ({ ...figures, ...spreadOf(figures.rounds) })),
    ratios: ratios
      .filter((ratio) => ratio.mayLack !== true || isThere(ratio))
      .map((ratio) => {
        const to = ratio.to === undefined ? undefined : roundsOf(ratio.to);
        const spread = spreadOf(roundsOf(ratio.of).map((figure, round) => figure / (to?.[round] ?? 1)));
        const { atMost, ...asked } = ratio;
        if (atMost === undefined || !binds) return { ...asked, ...spread, kept: true };
        return { ...ratio, ...spread, kept: spread.median <= atMost };
      }),
  };
}

/** As Markdown, so that it can go into the documentation as it is. */
export function table({ title, figures, ratios }: Result): string {
  return [
    `### ${title}`,
    '',
    '| | median | spread | rows/s |',
    '| --- | ---: | --- | ---: |',
    ...figures.map(
      ({ contestant, unit, median, low, high }) =>
        `| ${contestant} | ${median.toFixed(1)} ${unit ?? 'µs a row'} | ${low.toFixed(1)} to ${high.toFixed(1)} | ${unit ? '' : Math.round(1e6 / median)} |`,
    ),
    '',
    '| cost of a row | median | spread | at most | so its rate is |',
    '| --- | ---: | --- | --- | ---: |',
    ...ratios.map(
      ({ of, to, median, low, high, atMost, kept }) =>
        `| ${to === undefined ? of : `${of} : ${to}`} | ${median.toFixed(2)} | ${low.toFixed(2)} to ${high.toFixed(2)} | ${bound(atMost, kept)} | ${to === undefined ? '' : `${(1 / median).toFixed(2)} x`} |`,
    ),
    '',
  ].join('\n');
}

function bound(atMost: number | undefined, kept: boolean): string {
  if (atMost === undefined) return '';
  return kept ? `${round(atMost)}, kept` : `${round(atMost)}, BROKEN`;
}

function round(bound: number): string {
  return String(Number(bound.toPrecision(3)));
}
