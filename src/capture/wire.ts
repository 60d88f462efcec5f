import type { Lsn } from '../change/lsn.ts';
import { EmendError } from '../errors.ts';

/**
 * The messages inside a replication connection's copy-both stream
 * (https://www.postgresql.org/docs/current/protocol-replication.html).
 */
type WalMessage =
  | { readonly kind: 'data'; readonly start: Lsn; readonly payload: Buffer }
  | { readonly kind: 'keepalive'; readonly end: Lsn; readonly replyRequested: boolean };

const xLogData = 0x77; // 'w': start, end, clock (8 bytes each), payload
const keepalive = 0x6b; // 'k': end, clock (8 bytes each), whether to answer
const xLogDataHeader = 1 + 3 * 8;

export function readWalMessage(chunk: Buffer): WalMessage {
  const kind = chunk[0];
  if (kind === xLogData) {
    return { kind: 'data', start: chunk.readBigUInt64BE(1), payload: chunk.subarray(xLogDataHeader) };
  }
  if (kind === keepalive) {
    return { kind: 'keepalive', end: chunk.readBigUInt64BE(1), replyRequested: chunk[17] === 1 };
  }
  throw new EmendError(
    'protocol_violation',
    `the server sent a replication message of unknown kind ${kind}`,
    {
      remedy: 'Check which version of PostgreSQL the source runs; emend knows 15 to 18.',
    },
  );
}

interface StatusUpdate {
  /** Read from the socket. Only shown in `pg_stat_replication`; WAL is kept all the same. */
  readonly received: Lsn;
  /** The server may forget everything before it, and after a reconnect it skips what committed before it. */
  readonly confirmed: Lsn;
  readonly requestReply: boolean;
}

const microsecondsTo2000 = 946_684_800_000_000n;

export function standbyStatus({ received, confirmed, requestReply }: StatusUpdate): Buffer {
  const packet = Buffer.alloc(34);
  packet.write('r', 0, 'latin1');
  packet.writeBigUInt64BE(received, 1);
  packet.writeBigUInt64BE(confirmed, 9);
  packet.writeBigUInt64BE(confirmed, 17);
  packet.writeBigInt64BE(BigInt(Date.now()) * 1_000n - microsecondsTo2000, 25);
  packet[33] = requestReply ? 1 : 0;
  return packet;
}
