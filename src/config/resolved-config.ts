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
  readonly capture: { readonly atomicRows: number; readonly atomicBytes: number; readonly lingerMs: number };
  readonly merge: { readonly concurrency: number };
}
