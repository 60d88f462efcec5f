import type { Contestant, OpenContestant, Timed } from './contestant.ts';
import type { BenchServers } from './servers.ts';

/** One figure a round. The figures of one round, of all contestants, belong together: ratios pair them. */
export interface Measured {
  readonly contestant: string;
  /** Left out: microseconds a row. */
  readonly unit?: 'ms' | 'MB' | 'bytes';
  readonly rounds: readonly number[];
}

export interface Measurement<Work> {
  readonly contestants: readonly Contestant<Work>[];
  /** Rounds that are not counted: caches and connections warm up, and whoever waits for the first vacuum gets it over with. */
  readonly warmUp: number;
  readonly rounds: number;
  /** The same for all. */
  readonly work: (round: number) => Work;
}

/** Runs the contestants in turn, round by round: what disturbs the machine for a while disturbs them all. */
export async function measure<Work>(
  servers: BenchServers,
  { contestants, warmUp, rounds, work }: Measurement<Work>,
): Promise<Measured[]> {
  const open: (OpenContestant<Work> & { readonly name: string })[] = [];
  const figures = new Map<string, number[]>(contestants.map(({ name }) => [name, []]));
  try {
    for (const contestant of contestants)
      open.push({ name: contestant.name, ...(await contestant.open(servers)) });
    for (let round = 0; round < warmUp + rounds; round += 1) {
      const ofRound = work(round);
      for (const contestant of turned(open, round)) {
        const found = await figuresOf(contestant.name, await contestant.prepare(ofRound));
        if (round < warmUp) continue;
        for (const [name, figure] of Object.entries(found))
          figures.set(name, [...(figures.get(name) ?? []), figure]);
      }
    }
    for (const contestant of open) await contestant.verify();
    return [...figures].map(([contestant, ofRounds]) => ({ contestant, rounds: ofRounds }));
  } finally {
    for (const contestant of open) await contestant.close();
  }
}

/** Microseconds a row, by the name of the figure. */
async function figuresOf(name: string, timed: Timed): Promise<Record<string, number>> {
  try {
    const start = performance.now();
    const told = await timed.run();
    const microseconds = told ?? (performance.now() - start) * 1000;
    return { [name]: microseconds / timed.rows, ...timed.more?.() };
  } finally {
    await timed.rest?.();
  }
}

/** Each round begins with another one: nobody always comes after the same neighbour. */
function turned<T>(list: readonly T[], by: number): T[] {
  const start = by % list.length;
  return [...list.slice(start), ...list.slice(0, start)];
}
