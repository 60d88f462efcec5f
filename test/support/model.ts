/**
 * The laws as plainly as they can be written: one instant at a time, on a small integer axis. It shares no code, and no
 * idea of how, with the product. Slow on purpose.
 */
export interface Correction {
  readonly id: number;
  readonly key: string;
  readonly op: 'upsert' | 'retract' | 'withdraw';
  /** Steps of the axis; `from` 0 stands for -infinity and `to` `axisEnd` for infinity. */
  readonly from: number;
  /** Not looked at in until-next mode. */
  readonly to: number;
  readonly value: string | null;
  /** The user's own version, where the target has one. */
  readonly version: number;
}

export interface Piece {
  readonly key: string;
  readonly from: number;
  readonly to: number;
  readonly id: number;
  readonly op: Correction['op'];
  readonly value: string | null;
}

export const axisEnd = 24;

export type Fold = (corrections: readonly Correction[]) => Piece[];

function beats(one: Correction, other: Correction): boolean {
  return one.version !== other.version ? one.version > other.version : one.id > other.id;
}

/** Law 1 for stated periods, law 3 for the form: upserts and retractions that win, as maximal pieces. */
export const foldOverride: Fold = (corrections) => {
  const pieces: Piece[] = [];
  for (const key of keysOf(corrections)) {
    let open: { winner: Correction; from: number } | null = null;
    for (let instant = 0; instant <= axisEnd; instant++) {
      let winner: Correction | null = null;
      for (const correction of corrections) {
        if (correction.key !== key || instant === axisEnd) continue;
        if (correction.from > instant || instant >= correction.to) continue;
        if (!winner || beats(correction, winner)) winner = correction;
      }
      if (open && open.winner !== winner) {
        pieces.push(pieceOf(open.winner, open.from, instant));
        open = null;
      }
      if (winner && !open) open = { winner, from: instant };
    }
  }
  return pieces;
};

/** Law 1 for starts: versions compete within a start; the winner holds until the next start that is one. */
export const foldUntilNext: Fold = (corrections) => {
  const pieces: Piece[] = [];
  for (const key of keysOf(corrections)) {
    const winners: Correction[] = [];
    for (let start = 0; start < axisEnd; start++) {
      let winner: Correction | null = null;
      for (const correction of corrections) {
        if (correction.key !== key || correction.from !== start) continue;
        if (!winner || beats(correction, winner)) winner = correction;
      }
      if (winner) winners.push(winner);
    }
    for (const winner of winners) {
      if (winner.op === 'withdraw') {
        pieces.push(pieceOf(winner, winner.from, winner.from));
        continue;
      }
      const next = winners.find((other) => other.from > winner.from && other.op !== 'withdraw');
      pieces.push(pieceOf(winner, winner.from, next ? next.from : axisEnd));
    }
  }
  return pieces;
};

/** Law 1 for facts: one winner a key. The axis plays no part. */
export const foldFacts: Fold = (corrections) =>
  keysOf(corrections).map((key) => {
    const ofKey = corrections.filter((correction) => correction.key === key);
    const winner = ofKey.reduce((best, next) => (beats(next, best) ? next : best));
    return pieceOf(winner, 0, axisEnd);
  });

function keysOf(corrections: readonly Correction[]): string[] {
  return [...new Set(corrections.map((correction) => correction.key))];
}

function pieceOf(winner: Correction, from: number, to: number): Piece {
  return {
    key: winner.key,
    from,
    to,
    id: winner.id,
    op: winner.op,
    value: winner.op === 'upsert' ? winner.value : null,
  };
}

/** Law 3's view: touching pieces with equal values are one period. */
export function periodsOf(
  pieces: readonly Piece[],
): { key: string; from: number; to: number; value: string | null }[] {
  const periods: { key: string; from: number; to: number; value: string | null }[] = [];
  for (const piece of [...pieces].sort((a, b) =>
    a.key < b.key ? -1 : a.key > b.key ? 1 : a.from - b.from,
  )) {
    if (piece.op !== 'upsert') continue;
    const last = periods.at(-1);
    if (last && last.key === piece.key && last.to === piece.from && last.value === piece.value)
      last.to = piece.to;
    else periods.push({ key: piece.key, from: piece.from, to: piece.to, value: piece.value });
  }
  return periods;
}

export interface Lifetime extends Piece {
  /** Positions in the list of told-ats: believed from the first, until the second, or still (null). */
  readonly knownFrom: number;
  readonly knownTo: number | null;
}

/** What came to be believed at one K: corrections that were merged, corrections that were taken back. */
export interface Telling {
  readonly merged: readonly Correction[];
  readonly undone: readonly Correction[];
}

/** Law 4: belief after each telling, and how long each row of it stood as it was. `tellings` are in order of K. */
export function lifetimes(tellings: readonly Telling[], fold: Fold): Lifetime[] {
  const done: Lifetime[] = [];
  let standing: Lifetime[] = [];
  let told: Correction[] = [];
  tellings.forEach((telling, k) => {
    told = [...told, ...telling.merged].filter((correction) => !telling.undone.includes(correction));
    const now = fold(told);
    const isSame = (a: Piece, b: Piece) =>
      a.key === b.key && a.from === b.from && a.to === b.to && a.id === b.id;
    done.push(
      ...standing
        .filter((row) => !now.some((piece) => isSame(piece, row)))
        .map((row) => ({ ...row, knownTo: k })),
    );
    standing = now.map(
      (piece) => standing.find((row) => isSame(row, piece)) ?? { ...piece, knownFrom: k, knownTo: null },
    );
  });
  return [...done, ...standing];
}

/** When a correction was visible, in K's; the second is null while it still is. Of a backfill: from its promote to its revert. */
export interface Visible {
  readonly correction: Correction;
  readonly from: number;
  readonly to: number | null;
}

/** Law 4 for corrections that come and go: the K's, in their order, and what was told at each. */
export function tellingsOf(visible: readonly Visible[]): { ks: number[]; tellings: Telling[] } {
  const moments = visible.flatMap(({ from, to }) => (to === null ? [from] : [from, to]));
  const ks = [...new Set(moments)].sort((one, other) => one - other);
  const tellings = ks.map((k) => ({
    merged: visible.filter(({ from }) => from === k).map(({ correction }) => correction),
    undone: visible.filter(({ to }) => to === k).map(({ correction }) => correction),
  }));
  return { ks, tellings };
}
