import type { Pool } from 'pg';
import { digestPage, laterOf, readPage, startOf } from './log-pages.ts';
import type { LogRow, PageDigest, Place, Stretch } from './log-pages.ts';
import type { Mark } from './marks.ts';

/** A way along the logs, from where they are known to be in the ledger, in the order of transactions. */
export interface Walk {
  /** The next rows; none at its end, for now. */
  next(source: Pool, limit: number): Promise<readonly LogRow[]>;
  /** The same rows as a whole, without going on; null where that tells nothing. */
  digest(source: Pool, limit: number): Promise<PageDigest | null>;
  /** Goes on behind them. */
  passOver(page: PageDigest, limit: number): void;
  /** The transaction in which it stands: everything below has been seen. */
  readonly xid: bigint;
  readonly isAtEnd: boolean;
}

/** Everything below a horizon that moves on. */
export interface MainWalk extends Walk {
  extendTo(horizon: bigint): void;
}

export function createMainWalk(marks: readonly Mark[]): MainWalk {
  let cursor: Place = startOf(
    marks.reduce((least, { belowXid }) => (belowXid < least ? belowXid : least), 2n ** 64n - 1n),
  );
  let end = 0n;
  const isAtEnd = (): boolean => cursor.xid >= end;
  const stretches = (): Stretch[] =>
    marks.map(({ target, belowXid }) => ({
      target,
      after: laterOf(cursor, startOf(belowXid)),
      end: { belowXid: end },
    }));
  return {
    get xid() {
      return cursor.xid;
    },
    get isAtEnd() {
      return isAtEnd();
    },
    extendTo(horizon) {
      if (horizon > end) end = horizon;
    },
    async next(source, limit) {
      if (isAtEnd()) return [];
      const upTo = end;
      const rows = await readPage(source, stretches(), limit);
      cursor = rows.length < limit ? startOf(upTo) : rows.at(-1)!;
      return rows;
    },
    digest: (source, limit) => digestPage(source, stretches(), limit),
    passOver({ rows, last }, limit) {
      cursor = rows < limit ? startOf(end) : last;
    },
  };
}

/** Everything that was there when the source was first seen: another source's transaction ids say nothing about the horizon. */
export function createFirstWalk(marks: readonly Mark[]): Walk {
  const upToId = marks.flatMap(({ target, idsUpTo }) => (idsUpTo === null ? [] : [{ target, idsUpTo }]));
  let cursor = startOf(0n);
  let isAtEnd = upToId.length === 0;
  const stretches = (): Stretch[] =>
    upToId.map(({ target, idsUpTo }) => ({ target, after: cursor, end: { upToId: idsUpTo } }));
  return {
    get xid() {
      return cursor.xid;
    },
    get isAtEnd() {
      return isAtEnd;
    },
    async next(source, limit) {
      if (isAtEnd) return [];
      const rows = await readPage(source, stretches(), limit);
      if (rows.length < limit) isAtEnd = true;
      else cursor = rows.at(-1)!;
      return rows;
    },
    digest: (source, limit) => digestPage(source, stretches(), limit),
    passOver({ rows, last }, limit) {
      if (rows < limit) isAtEnd = true;
      else cursor = last;
    },
  };
}
