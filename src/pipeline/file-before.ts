import type { BackfillFile } from '../backfill/backfill-file.ts';
import type { RowSource } from '../backfill/define-backfill.ts';
import type { BackfillState } from '../backfill/state.ts';
import type { ResolvedConfig } from '../config/resolved-config.ts';
import { EmendError } from '../errors.ts';
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
    // abandoned before any of it came to the store: there is nothing to wait for
    const state = asked === 'abandoned' ? asked : (reached.rows[0]?.state ?? 'open');
    return { ...before, state, isEnded: ['promoted', 'reverted', 'abandoned'].includes(state) };
  });
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

/** By it a load that was killed is gone on with, and what is loaded is compared. */
export function inputName(rows: RowSource, place: number): string {
  return 'file' in rows ? rows.file : `rows-${place + 1}`;
}
