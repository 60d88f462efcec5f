import type { ClientBase } from 'pg';
import { planPublication } from '../capture/publication.ts';
import { ensureSlot, slotState } from '../capture/slot.ts';
import { ident, literal } from '../db/identifier.ts';
import type { Statement } from '../db/statement.ts';
import type { Problem } from '../errors.ts';
import { findSurplus, readersOf } from './readers.ts';
import type { ReaderCount } from './readers.ts';

/**
 * The publications of all readers. They change in one transaction, which waits for whoever writes to the logs: each transaction
 * is wholly in the shares as they were, or in those that are to be.
 */
export async function planPublications(
  source: ClientBase,
  install: string,
  count: ReaderCount,
): Promise<Statement[]> {
  const statements: Statement[] = [];
  for (const { publication, logs, share } of readersOf(install, count)) {
    statements.push(...(await planPublication(source, { publication, targets: logs, share })));
  }
  const { publications } = await findSurplus(source, install, count.readers);
  const drops = publications.map((name) => ({
    purpose: `publication ${name}: there are fewer readers`,
    sql: `drop publication ${ident(name)}`,
  }));
  return [...statements, ...drops];
}

/** Slots that are missing, and those of readers that there are no more: a slot that nobody reads keeps WAL for ever. */
export async function planSlots(
  source: ClientBase,
  install: string,
  count: ReaderCount,
): Promise<Statement[]> {
  const statements: Statement[] = [];
  for (const { slot, share } of readersOf(install, count)) {
    if ((await slotState(source, slot)).kind !== 'missing') continue;
    const which = share.of === 1 ? '' : `, share ${share.number} of ${share.of}`;
    const sql = `select pg_create_logical_replication_slot(${literal(slot)}, 'pgoutput')`;
    statements.push({ purpose: `replication slot of the reader${which}`, sql });
  }
  const { slots } = await findSurplus(source, install, count.readers);
  const drops = slots.map(({ name }) => ({
    purpose: `slot ${name}: there are fewer readers; what it was not read of is in the log`,
    sql: `select pg_drop_replication_slot(${literal(name)})`,
  }));
  return [...statements, ...drops];
}

/** Outside a transaction: a new slot waits for all that are writing. */
export async function makeSlots(source: ClientBase, install: string, count: ReaderCount): Promise<void> {
  for (const { slot } of readersOf(install, count)) await ensureSlot(source, { slot });
  const { slots } = await findSurplus(source, install, count.readers);
  for (const { name } of slots) await source.query(`select pg_drop_replication_slot($1)`, [name]);
}

/** Asked before anything is changed: a slot that is read cannot be dropped. */
export async function checkSurplus(
  source: ClientBase,
  install: string,
  { readers }: Pick<ReaderCount, 'readers'>,
): Promise<Problem[]> {
  const { slots } = await findSurplus(source, install, readers);
  return slots.flatMap(({ name, pid }) =>
    pid === null
      ? []
      : [
          {
            path: 'capture.readers',
            problem: `slot ${name} is to go, and is being read (process ${pid} of the source)`,
            remedy: 'Stop that reader, then run migrate again; or raise capture.readers.',
          },
        ],
  );
}
