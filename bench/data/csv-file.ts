import { createReadStream, createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import type { Pool } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { withClient } from '../../src/db/transaction.ts';

/** Writes what a select gives to a file, with a heading. */
export async function writeCsv(pool: Pool, path: string, select: string): Promise<void> {
  await withClient(pool, (client) =>
    pipeline(
      client.query(copyTo(`copy (${select}) to stdout with (format csv, header)`)),
      createWriteStream(path),
    ),
  );
}

export async function copyCsv(pool: Pool, path: string, table: string): Promise<void> {
  await withClient(pool, (client) =>
    pipeline(
      createReadStream(path),
      client.query(copyFrom(`copy ${table} from stdin with (format csv, header)`)),
    ),
  );
}
