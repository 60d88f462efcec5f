import type { Contestant, Timed } from './contestant.ts';
import type { BenchServer } from './server.ts';

/** Microseconds a row, one figure a round. The figures of one round, of all contestants, belong together: ratios pair them. */
export interface Measured {
  readonly contestant: string;
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
  server: BenchServer,
  { contestants, warmUp, rounds, work }: Measurement<Work>,
): Promise<Measured[]> {
  const open = [];
  try {
    for (const contestant of contestants) {
      open.push({ name: contestant.name, figures: [] as number[], ...(await contestant.open(server)) });
    }
    for (let round = 0; round < warmUp + rounds; round += 1) {
      const ofRound = work(round);
      for (const contestant of turned(open, round)) {
        const timed = contestant.prepare(ofRound);
        const microseconds = await microsecondsOf(timed);
        if (round >= warmUp) contestant.figures.push(microseconds / timed.rows);
      }
    }
    for (const contestant of open) await contestant.verify();
    return open.map(({ name, figures }) => ({ contestant: name, rounds: figures }));
  } finally {
    for (const contestant of open) await contestant.close();
  }
}

async function microsecondsOf(timed: Timed): Promise<number> {
  try {
    const start = performance.now();
    await timed.run();
    return (performance.now() - start) * 1000;
  } finally {
    await timed.rest?.();
  }
}

/** Each round begins with another one: nobody always comes after the same neighbour. */
function turned<T>(list: readonly T[], by: number): T[] {
  const start = by % list.length;
  return [...list.slice(start), ...list.slice(0, start)];
}
