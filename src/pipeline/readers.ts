import type { ClientBase, Pool } from 'pg';
import { requestLog } from '../backfill/request.ts';
import { publicationName, slotName } from '../capture/names.ts';
import type { Share } from '../capture/publication.ts';
import { literal } from '../db/identifier.ts';

/** One of the readers that an install has by its configuration: its part of the log, and where it reads it. */
export interface Reader {
  readonly share: Share;
  readonly slot: string;
  readonly publication: string;
  /** Tables of schema `corrections` that it reads. */
  readonly logs: readonly string[];
}

export interface ReaderCount {
  /** `capture.readers` */
  readonly readers: number;
  /** Names of the targets. */
  readonly targets: readonly string[];
}

/** Requests of backfills have no transaction that they would have to stay with; the first reader has them. */
export function readersOf(install: string, { readers, targets }: ReaderCount): Reader[] {
  return Array.from({ length: readers }, (_, index) => {
    const number = index + 1;
    return {
      share: { number, of: readers },
      slot: slotName(install, number),
      publication: publicationName(install, number),
      logs: number === 1 ? [...targets, requestLog] : targets,
    };
  });
}

/** Slots and publications of more readers than the configuration has: of an earlier one, which had more. */
export interface Surplus {
  readonly slots: readonly { readonly name: string; readonly pid: string | null }[];
  readonly publications: readonly string[];
}

export async function findSurplus(
  source: Pool | ClientBase,
  install: string,
  readers: number,
): Promise<Surplus> {
  const named = (column: string): string =>
    `substring(${column} from ${literal(`^${slotName(install)}_([0-9]+)$`)})::integer > ${readers}`;
  const slots = await source.query<{ name: string; pid: string | null }>(
    `select slot_name::text as name, active_pid::text as pid
     from pg_replication_slots
     where database = current_database() and plugin = 'pgoutput' and ${named('slot_name::text')}
     order by slot_name`,
  );
  const publications = await source.query<{ name: string }>(
    `select pubname::text as name from pg_publication where ${named('pubname::text')} order by pubname`,
  );
  return { slots: slots.rows, publications: publications.rows.map(({ name }) => name) };
}
