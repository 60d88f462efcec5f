import type { Stream, Writing } from '../data/stream.ts';
import type { Contestant } from '../harness/contestant.ts';
import { startRecvlogical } from './recvlogical.ts';
import {
  checkpoint,
  createWriter,
  databaseOf,
  insertInto,
  openPlace,
  plainLogDdl,
  untilCaughtUp,
  untilFound,
} from './writer.ts';

/**
 * Decoding alone: the same rows out of the WAL, through pgoutput to a client that drops them.
 *
 * It is done when all has been sent. The client is as far then, but for what the connection holds: it says so itself before the
 * turn is over, once a second and so too late for a clock.
 *
 * @param file `pg_recvlogical`
 */
export function decodingAlone(name: string, stream: Stream, file: string): Contestant<Writing> {
  return {
    name,
    open: async (servers) => {
      const place = await openPlace(servers.source);
      const { url, pool } = place;
      const slot = databaseOf(place);
      /** Of the same rows: a client that drops them cannot be asked for their number. */
      const counted = `${slot}_counted`;
      await pool.query(plainLogDdl(stream));
      await pool.query(`create publication bench for table public.log with (publish = 'insert')`);
      for (const created of [slot, counted])
        await pool.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [created]);
      const write = await createWriter(pool, stream, insertInto('public.log', stream));
      let seen = 0;
      let last = 0;
      return {
        prepare: async (writing) => {
          last = writing.last;
          await checkpoint(pool);
          const client = startRecvlogical(file, { url, slot });
          // past what others have written meanwhile
          await client.orEnded(untilSent());
          return {
            rows: writing.last - writing.first + 1,
            run: async () => {
              await write(writing);
              await client.orEnded(untilSent());
            },
            rest: async () => {
              await client.orEnded(untilCaughtUp(pool));
              await client.stop();
              await untilFound(
                pool,
                `select from pg_replication_slots where slot_name = '${slot}' and not active`,
              );
              seen += await countInserts();
            },
          };
        },
        verify: async () => {
          if (seen !== last) throw new Error(`${seen} rows came out of the WAL, and not ${last}`);
        },
        close: () => place.close(),
      };

      /** The server has decoded and sent all that is committed now. */
      async function untilSent(): Promise<void> {
        const { rows } = await pool.query<{ lsn: string }>('select pg_current_wal_flush_lsn()::text as lsn');
        await untilFound(
          pool,
          `select from pg_stat_replication r join pg_replication_slots s on s.active_pid = r.pid
           where s.slot_name = '${slot}' and r.sent_lsn >= '${rows[0]!.lsn}'::pg_lsn`,
        );
      }

      /** Inserts that pgoutput has of what has not been counted yet. */
      async function countInserts(): Promise<number> {
        const { rows } = await pool.query<{ inserts: string }>(
          `select count(*) filter (where get_byte(data, 0) = ascii('I')) as inserts
           from pg_logical_slot_get_binary_changes($1, null, null, 'proto_version', '1', 'publication_names', 'bench')`,
          [counted],
        );
        return Number(rows[0]!.inserts);
      }
    },
  };
}
