import { connectWalsender, closeWalsender, createWalsender } from '../../src/capture/walsender.ts';
import type { Walsender } from '../../src/capture/walsender.ts';
import type { Stream, Writing } from '../data/stream.ts';
import type { Contestant } from '../harness/contestant.ts';
import { checkpoint, createWriter, databaseOf, insertInto, openPlace, plainLogDdl } from './writer.ts';

/** Decoding alone: the same rows out of the WAL, through pgoutput to a client that counts them and drops them. */
export function decodingAlone(name: string, stream: Stream): Contestant<Writing> {
  return {
    name,
    open: async (servers) => {
      const place = await openPlace(servers.source);
      const { url, pool } = place;
      const slot = databaseOf(place);
      await pool.query(plainLogDdl(stream));
      await pool.query(`create publication bench for table public.log with (publish = 'insert')`);
      await pool.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [slot]);
      const write = await createWriter(pool, stream, insertInto('public.log', stream));
      let seen = 0;
      let last = 0;
      return {
        prepare: async (writing) => {
          last = writing.last;
          await checkpoint(pool);
          const client = createWalsender(url);
          await connectWalsender(client);
          const allSeen = countInserts(client, slot, () => (seen += 1) >= writing.last);
          return {
            rows: writing.last - writing.first + 1,
            run: async () => {
              await write(writing);
              await allSeen;
            },
            rest: async () => {
              await closeWalsender(client);
              await untilFreed(slot);
            },
          };
        },
        verify: async () => {
          if (seen !== last) throw new Error(`${seen} rows came out of the WAL, and not ${last}`);
        },
        close: () => place.close(),
      };

      /** What was read is not read again. */
      async function untilFreed(name: string): Promise<void> {
        const { rows } = await pool.query(
          'select from pg_replication_slots where slot_name = $1 and active',
          [name],
        );
        if (rows.length > 0) return untilFreed(name);
        await pool.query('select pg_replication_slot_advance($1, pg_current_wal_flush_lsn())', [name]);
      }
    },
  };
}

const walData = 'w'.charCodeAt(0);
const insert = 'I'.charCodeAt(0);
/** Of XLogData: the tag and three numbers of eight bytes stand before the payload. */
const payloadAt = 25;

/** Resolves once `count` has said of a row that it is the last one. */
function countInserts(client: Walsender, slot: string, count: () => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    client.connection.on('copyData', ({ chunk }) => {
      if (chunk[0] === walData && chunk[payloadAt] === insert && count()) resolve();
    });
    client
      .query(`START_REPLICATION SLOT ${slot} LOGICAL 0/0 (proto_version '1', publication_names 'bench')`)
      .catch(reject);
  });
}
