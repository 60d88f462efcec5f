import type { EmendConfig } from '../../src/config/define-config.ts';
import { facts, timeline } from '../../src/config/define-config.ts';
import { foldFacts, foldOverride, foldUntilNext } from '../support/model.ts';
import type { Correction, Fold } from '../support/model.ts';

/** One target of each kind, all with the same columns. */
export const ddl = `
  create table public.f (k text primary key, v text);
  create table public.o (k text not null, f date not null, t date not null, v text, primary key (k, f));
  create table public.u (k text not null, f date not null, t date not null, v text, primary key (k, f))`;

export const targets: EmendConfig['targets'] = {
  f: facts('public.f', { key: ['k'] }),
  o: timeline('public.o', { key: ['k'], period: ['f', 't'] }),
  u: timeline('public.u', { key: ['k'], period: ['f', 't'], mode: 'until_next' }),
};

export const configTextOf = (readers: number): string => `
import { defineConfig, facts, timeline } from 'emend';
export default defineConfig({
  capture: { readers: ${readers} },
  targets: {
    f: facts('public.f', { key: ['k'] }),
    o: timeline('public.o', { key: ['k'], period: ['f', 't'] }),
    u: timeline('public.u', { key: ['k'], period: ['f', 't'], mode: 'until_next' }),
  },
});`;

export interface ModelTarget {
  readonly name: 'f' | 'o' | 'u';
  /** What a correction in its log states, beside key and value. */
  readonly states: readonly ('f' | 't')[];
  readonly ops: readonly Correction['op'][];
  readonly fold: Fold;
}

const stating: readonly Correction['op'][] = ['upsert', 'upsert', 'upsert', 'retract'];

export const modelTargets: readonly ModelTarget[] = [
  { name: 'f', states: [], ops: stating, fold: foldFacts },
  { name: 'o', states: ['f', 't'], ops: stating, fold: foldOverride },
  { name: 'u', states: ['f'], ops: [...stating, 'withdraw'], fold: foldUntilNext },
];
