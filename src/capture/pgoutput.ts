import { PgoutputPlugin } from 'pg-logical-replication';
import type { Pgoutput } from 'pg-logical-replication';

/**
 * The library's pgoutput parser, with every value left as the server's own text (law 9).
 *
 * The library would turn texts into dates and numbers by `pg.types`, which belongs to the host application. And its
 * decoder takes a leading U+FEFF for a byte order mark and drops it, so rows that may hold one are read once more.
 */
export class RawTextPgoutput extends PgoutputPlugin {
  constructor() {
    super({ protoVersion: 1, publicationNames: [] });
  }

  override parse(payload: Buffer): Pgoutput.Message {
    const message = super.parse(payload);
    if (message.tag === 'relation') {
      for (const column of message.columns) column.parser = asItIs;
    } else if (message.tag === 'insert' && payload.includes(byteOrderMark)) {
      readTexts(payload, message);
    }
    return message;
  }
}

const byteOrderMark = Buffer.from('\u{feff}');
const headerOfInsert = 1 + 4 + 1 + 2; // tag, relation, 'N', number of columns
const text = 0x74;

function asItIs(value: string): string {
  return value;
}

function readTexts(payload: Buffer, message: Pgoutput.MessageInsert): void {
  let at = headerOfInsert;
  for (const { name } of message.relation.columns) {
    const isText = payload[at] === text;
    at += 1;
    if (!isText) continue;
    const start = at + 4;
    at = start + payload.readInt32BE(at);
    message.new[name] = payload.toString('utf8', start, at);
  }
}
