import { createHash } from 'node:crypto';
import type { ClientBase, Pool } from 'pg';
import { isLines } from './load-pieces.ts';
import type { LoadItem } from './load-pieces.ts';

/** How far an input has been loaded; kept with the last chunk of it, in the transaction of its rows. */
export interface Checkpoint {
  /** The input: a file's name. */
  readonly source: string;
  /** Of the records up to `read`. */
  readonly checksum: string;
  /** Records that were taken or skipped. */
  readonly read: number;
  readonly skipped: number;
  /** The last of these. */
  readonly line: number;
  /** Whether the input ended there. */
  readonly isEnd: boolean;
}

const start: Omit<Checkpoint, 'source'> = { checksum: '', read: 0, skipped: 0, line: 0, isEnd: false };

export async function readCheckpoint(
  source: Pool | ClientBase,
  backfill: string,
  target: string,
  input: string,
): Promise<Checkpoint> {
  const { rows } = await source.query<{ loader: string }>(
    `select (r.details -> 'loader')::text as loader
     from corrections._request r
     where r.backfill = $1 and r.request = 'chunk' and r.details ->> 'target' = $2 and r.details -> 'loader' ->> 'source' = $3
     order by r._id desc
     limit 1`,
    [backfill, target, input],
  );
  const loader = rows[0]?.loader;
  return loader === undefined ? { ...start, source: input } : (JSON.parse(loader) as Checkpoint);
}

/** Two loads of one input at once would write its rows twice: the later one waits for the transaction of the other, and sees. */
export async function lockInput(
  client: ClientBase,
  backfill: string,
  target: string,
  input: string,
): Promise<void> {
  await client.query(
    `select pg_advisory_xact_lock(hashtextextended(jsonb_build_array('emend load', $1::text, $2::text, $3::text)::text, 0))`,
    [backfill, target, input],
  );
}

/** A checksum over what is loaded, which can be asked for on the way, and does not depend on how it is cut. */
export interface Checksum {
  add(item: LoadItem): void;
  value(): string;
}

export function createChecksum(): Checksum {
  const hash = createHash('sha256');
  let header: readonly string[] | undefined;
  const addText = (text: string): void => void hash.update(text);
  return {
    add: (item) => {
      if (!isLines(item)) return addText(`${JSON.stringify('values' in item ? item.values : item.raw)}\n`);
      // once a file: its lines come in parts
      if (header !== item.columns) addText(`${JSON.stringify(item.columns)}\n`);
      header = item.columns;
      addText(item.text);
    },
    value: () => hash.copy().digest('hex'),
  };
}
