/** The year of fares that the demo is about: made up, and the same in every run. */
export type Fare = {
  readonly route: string;
  readonly valid_from: string;
  /** The first day that does not belong to it, or `infinity`. */
  readonly valid_to: string;
  /** With two decimals. */
  readonly price: string;
};

export const daysOfYear = 365;
const carriers = ['KL', 'AF', 'BA', 'IB', 'LH'];

export function routeName(place: number): string {
  return `${carriers[place % carriers.length]!}-${String(place).padStart(4, '0')}`;
}

/** Of each route a fare from January 1 on, and another one every two to eight weeks; the last one is open. */
export function fareOfYear(routes: number): Fare[] {
  return Array.from({ length: routes }, (_, place) => faresOf(place)).flat();
}

/** Each route has its numbers to itself, so that a smaller network has the same fares. */
function faresOf(place: number): Fare[] {
  const below = createRandom(place + 1);
  const usual = 60 + below(300);
  const starts: number[] = [];
  for (let day = 0; day < daysOfYear; day += 14 + below(43)) starts.push(day);
  return starts.map((day, each) => ({
    route: routeName(place),
    valid_from: dayText(day),
    valid_to: each + 1 < starts.length ? dayText(starts[each + 1]!) : 'infinity',
    price: (usual * (0.8 + below(40) / 100)).toFixed(2),
  }));
}

/** A day of 2026, from 0 for January 1. */
export function dayText(day: number): string {
  return new Date(Date.UTC(2026, 0, 1 + day)).toISOString().slice(0, 10);
}

/** Whole numbers from 0 up to, and without, a limit; the same ones for the same seed. */
export function createRandom(seed: number): (limit: number) => number {
  let state = (seed * 2_654_435_761) % 2 ** 32;
  return (limit) => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return Math.floor((state / 2 ** 32) * limit);
  };
}
