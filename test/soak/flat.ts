/** A figure over time, and how much of a rise counts as none. */
export interface Series {
  readonly name: string;
  readonly unit: string;
  readonly points: readonly Point[];
  /** What it may rise over the time that is judged: a share of its median, or so much, whichever is more. */
  readonly share: number;
  readonly amount: number;
}

export interface Point {
  readonly atMs: number;
  readonly value: number;
}

export interface Verdict {
  /** Medians of the halves of the time. */
  readonly first: number;
  readonly second: number;
  /** Over the time that is judged, by the robust slope. */
  readonly rise: number;
  readonly bound: number;
  /** Too few points say nothing, and that is no proof. */
  readonly isFlat: boolean;
}

const fewestPoints = 8;
/** The slope looks at all pairs. */
const mostPoints = 400;

/**
 * Whether a series does not grow: its rise by the Theil-Sen slope (the median of the slopes of all pairs, which no outlier moves,
 * https://en.wikipedia.org/wiki/Theil–Sen_estimator) and the rise from its first half to its second both stay below the bound. A
 * step in the middle has hardly a slope.
 */
export function judge({ points, share, amount }: Series): Verdict {
  const middle = (points[0]?.atMs ?? 0) / 2 + (points.at(-1)?.atMs ?? 0) / 2;
  const first = median(points.filter(({ atMs }) => atMs < middle).map(({ value }) => value));
  const second = median(points.filter(({ atMs }) => atMs >= middle).map(({ value }) => value));
  const rise = slopeOf(thin(points)) * ((points.at(-1)?.atMs ?? 0) - (points[0]?.atMs ?? 0));
  const bound = Math.max(share * median(points.map(({ value }) => value)), amount);
  const isFlat = points.length >= fewestPoints && rise <= bound && second - first <= bound;
  return { first, second, rise, bound, isFlat };
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = Math.floor(sorted.length / 2);
  if (sorted.length === 0) return NaN;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Per ms. */
function slopeOf(points: readonly Point[]): number {
  const slopes = points.flatMap((one, place) =>
    points.slice(place + 1).map((other) => (other.value - one.value) / (other.atMs - one.atMs)),
  );
  return slopes.length === 0 ? 0 : median(slopes);
}

function thin(points: readonly Point[]): readonly Point[] {
  const step = Math.ceil(points.length / mostPoints);
  return points.filter((_, place) => place % step === 0);
}
