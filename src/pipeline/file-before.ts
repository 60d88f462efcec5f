import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { BackfillFile } from '../backfill/backfill-file.ts';
import type { RowSource } from '../backfill/define-backfill.ts';
import { requireAsLoaded } from '../backfill/load.ts';
import { readInput } from '../backfill/read-rows.ts';
import type { BackfillState } from '../backfill/state.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { EmendError, isEmendError } from '../errors.ts';
import { withServers } from './connections.ts';
import { requireInstall } from './install.ts';

/** What is there under the file's name. */
export interface Before {
  readonly state: BackfillState;
  /** Promoted, reverted or abandoned. */
  readonly isEnded: boolean;
  /** No row can be added. */
  readonly isClosed: boolean;
  readonly logicVersion: string | null;
  readonly origin: Readonly<Record<string, unknown>>;
}

export function readBefore(config: ResolvedConfig, name: string): Promise<Before | null> {
  return withServers(config, { role: 'backfill', max: 1 }, async ({ source, store }) => {
    await requireInstall(store);
    const stated = await source.query<{ before: string }>(
      `select jsonb_build_object(
         'isClosed', b.closed_at is not null, 'asked', s.state, 'logicVersion', b.logic_version, 'origin', b.origin
       )::text as before
       from corrections._backfill b
       join corrections._backfill_state s on s.name = b.name
       where b.name = $1`,
      [name],
    );
    if (stated.rows.length === 0) return null;
    const { asked, ...before } = JSON.parse(stated.rows[0]!.before) as Omit<Before, 'state'> & {
      asked: BackfillState;
    };
    const reached = await store.query<{ state: BackfillState }>(
      `select state from emend.backfill where name = $1`,
      [name],
    );
    const now = reached.rows[0]?.state ?? 'open';
    // there is nothing to wait for; what is promoted is not abandoned, whatever was asked
    const state = asked === 'abandoned' && !isEnd(now) ? asked : now;
    return { ...before, state, isEnded: isEnd(state) };
  });
}

function isEnd(state: BackfillState): boolean {
  return state === 'promoted' || state === 'reverted' || state === 'abandoned';
}

/** @throws EmendError `backfill_refused` for what goes on under the name of something else */
export async function refuseOther(config: ResolvedConfig, file: BackfillFile, before: Before): Promise<void> {
  const { name, fileName, checksum, samples } = file;
  const { origin, isClosed } = before;
  if (origin['checksum'] === checksum) return;
  if (origin['checksum'] === undefined) {
    throw new EmendError('backfill_refused', `there is a backfill ${name} already, and it is not of a file`, {
      remedy: 'Give the file another name.',
    });
  }
  const gone = isClosed ? undefined : await loadedBeside(config, file);
  if (!isClosed && gone === undefined) return;
  const itself = typeof samples === 'string' ? `${fileName}, or its samples (${samples}),` : fileName;
  const changed = `${itself} has been changed since backfill ${name} was opened from it`;
  throw new EmendError(
    'backfill_refused',
    gone === undefined
      ? `${changed}; nothing has been done`
      : `${changed}: rows of ${gone} have been loaded, which it does not have any more; nothing has been done`,
    {
      remedy: `Give the changed file a name of its own. Of what was opened, see emend backfill show ${name}: abandon it if it is not promoted, revert it if it is.`,
    },
  );
}

/** An input of which rows were loaded, and that the file does not state: its rows would be sealed with the others. */
function loadedBeside(config: ResolvedConfig, { name, rows }: BackfillFile): Promise<string | undefined> {
  return withServers(config, { role: 'backfill', max: 1 }, async ({ source }) => {
    const { rows: loaded } = await source.query<{ target: string; input: string }>(
      `select distinct r.details ->> 'target' as target, r.details -> 'loader' ->> 'source' as input
       from corrections._request r
       where r.backfill = $1 and r.request = 'chunk' and r.details -> 'loader' ? 'source'`,
      [name],
    );
    const isStated = ({ target, input }: (typeof loaded)[number]): boolean =>
      rows.some((each, place) => each.target === target && inputName(each.rows, place) === input);
    return loaded.find((each) => !isStated(each))?.input;
  });
}

/**
 * Rows that were changed behind their loading would be promoted as they were, in silence: each file of rows is compared with what
 * is loaded of it. One that is not there any more cannot be, and takes nothing away: its rows are in the log.
 *
 * @returns the files that are not there, as their author named them
 * @throws EmendError `backfill_refused` for a file that has other content
 */
export function refuseOtherRows(config: ResolvedConfig, file: BackfillFile): Promise<string[]> {
  const { name, folder } = file;
  return withServers(config, { role: 'backfill', max: 1 }, async ({ source }) => {
    const gone: string[] = [];
    for (const { target, rows } of file.rows) {
      if (!('file' in rows)) continue;
      const path = resolve(folder, rows.file);
      if (!existsSync(path)) {
        gone.push(rows.file);
        continue;
      }
      const read = readInput({ path, format: rows.format, remedy: 'Put it back as it was.' });
      await requireAsLoaded({ source, target, name, input: rows.file, rows: read }).catch(
        (error: unknown) => {
          throw changedRows(file, rows.file, error);
        },
      );
    }
    return gone;
  });
}

function changedRows({ name, fileName }: BackfillFile, rows: string, error: unknown): unknown {
  // it was read to its end when it was loaded: a line that cannot be read was put there since
  if (!isEmendError(error) || !['backfill_refused', 'correction_invalid'].includes(error.code)) return error;
  return new EmendError(
    'backfill_refused',
    `${rows} has been changed since backfill ${name} was loaded from it; nothing has been done`,
    {
      remedy: `Put it back as it was. To run the changed rows, give ${fileName} another name; see emend backfill show ${name}: abandon that one if it is not promoted, revert it if it is.`,
      cause: error,
    },
  );
}

/** By it a load that was killed is gone on with, and what is loaded is compared. */
export function inputName(rows: RowSource, place: number): string {
  return 'file' in rows ? rows.file : `rows-${place + 1}`;
}
