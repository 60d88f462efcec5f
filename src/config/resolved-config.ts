import type { PromoteSpan } from './promote-times.ts';
import type { TargetDeclaration } from './target-declaration.ts';

/** A configuration that was checked, with every default and URL in its place. */
export interface ResolvedConfig {
  readonly source: { readonly url: string; readonly replicationUrl: string };
  readonly store: { readonly url: string };
  /** Without Redis, BullMQ's PostgreSQL backend in the store. A null prefix is the one of the install. */
  readonly queue: {
    readonly redis: string | null;
    readonly prefix: string | null;
    readonly maxBytes: number;
  };
  readonly targets: readonly TargetDeclaration[];
  readonly capture: {
    readonly atomicRows: number;
    readonly atomicBytes: number;
    readonly lingerMs: number;
    readonly readers: number;
  };
  readonly merge: { readonly concurrency: number };
  /** Days that a row is to stay in its log; 0: for ever. */
  readonly log: { readonly keepDays: number };
  /** When promotes may begin; none: at any time. */
  readonly promote: readonly PromoteSpan[];
}
