import type { ClientBase, Pool } from 'pg';
import type { LogRows } from '../change/batch.ts';
import { statedColumns } from '../change/target.ts';
import { identList, qualified } from '../db/identifier.ts';
import { withTransaction } from '../db/transaction.ts';
import { EmendError } from '../errors.ts';
import { mergeAsKnown } from '../merge/merge-as-known.ts';
import type { HistoryImport } from './known-history.ts';
import { writeKnownHistory } from './write-known-history.ts';

export interface Imported {
  readonly name: string;
  readonly rows: number;
  readonly times: number;
  /** How many of `rows` this run took in; the others had been by an earlier run of the same import. */
  readonly taken: number;
}

/**
 * Takes in history that was known before emend came: corrections with the time at which each was known, in that order, so
 * that `_as_of` answers as it would have then.
 *
 * The rows go to the log under the import's name, in one transaction; then each time's rows are merged in one store
 * transaction with that time as their K. Killed anywhere and run again, it goes on; run again when done, it changes nothing.
 *
 * @throws EmendError `correction_invalid` with the line at fault; nothing of the file is in the log then
 */
export async function importHistory(work: HistoryImport): Promise<Imported> {
  await refuseLiveCorrections(work);
  await withTransaction(work.source, async (client) => {
    if (await isWritten(client, work)) return;
    await writeKnownHistory(client, work);
  });
  return mergeLog(work);
}

async function refuseLiveCorrections({ store, target, name }: HistoryImport): Promise<void> {
  const { rows } = await store.query<{ live: string }>(
    `select case when exists (
       select from emend.ledger l where l.target = $1 and l._backfill is distinct from $2
     ) then 'yes' else 'no' end as live`,
    [target.name, name],
  );
  if (rows[0]?.live === 'no') return;
  throw new EmendError(
    'correction_invalid',
    `${target.name} has corrections already; history that was known before cannot be imported beneath them`,
    {
      remedy:
        'Import into a target that has none yet, before its first live correction. Answers already given would change otherwise.',
    },
  );
}

/** Whether an earlier run has written the log. It did so as a whole. */
async function isWritten(client: ClientBase, { name, digest, target }: HistoryImport): Promise<boolean> {
  const { rows } = await client.query<{ digest: string | null; target: string }>(
    `select logic_version as digest, array_to_string(targets, ', ') as target from corrections._backfill where name = $1`,
    [name],
  );
  const before = rows[0];
  if (!before) return false;
  if (before.digest === digest && before.target === target.name) return true;
  throw new EmendError(
    'correction_invalid',
    `an import or backfill named ${name} exists already, of ${before.target} and with other content`,
    {
      remedy: 'Give this one another name (--name).',
    },
  );
}

async function mergeLog(work: HistoryImport): Promise<Imported> {
  const { rows: times } = await work.source.query<{ known_at: string; first: string; last: string }>(
    `select details ->> 'known_at' as known_at, min((details ->> 'first')::bigint)::text as first, max((details ->> 'last')::bigint)::text as last
     from corrections._request
     where backfill = $1 and request = 'chunk'
     group by details ->> 'known_at'
     order by min(_id)`,
    [work.name],
  );
  let [merged, taken] = [0, 0];
  for (const { known_at, first, last } of times) {
    const rows = await readLog(work, first, last);
    const count = rows.values[0]?.length ?? 0;
    if (await notMerged(work.store, rows)) {
      await mergeAsKnown(work.store, work.target, rows, known_at);
      taken += count;
    }
    merged += count;
    work.onProgress?.({ written: merged, merged });
  }
  return { name: work.name, rows: merged, times: times.length, taken };
}

/** Rows of the log as capture would hand them over: the server's own text. */
async function readLog(
  { source, target, name }: HistoryImport,
  first: string,
  last: string,
): Promise<LogRows> {
  const columns = [
    ...statedColumns(target).map((column) => column.name),
    '_id',
    '_op',
    '_nonce',
    '_recorded_at',
    '_backfill',
    '_actor',
    '_reason',
  ];
  const { rows } = await source.query<Record<string, string | null>>(
    `select ${identList(columns)} from ${qualified('corrections', target.name)}
     where _backfill = $1 and _id between $2::bigint and $3::bigint
     order by _id`,
    [name, first, last],
  );
  return {
    target: target.name,
    columns,
    values: columns.map((column) => rows.map((row) => row[column] ?? null)),
  };
}

async function notMerged(store: Pool, rows: LogRows): Promise<boolean> {
  const { rows: found } = await store.query<{ missing: string }>(
    `select case when exists (
       select from unnest($1::bigint[]) as wanted (id) where not exists (select from emend.ledger_at(wanted.id))
     ) then 'yes' else 'no' end as missing`,
    [rows.values[rows.columns.indexOf('_id')]],
  );
  return found[0]?.missing === 'yes';
}
