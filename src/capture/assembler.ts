import type { Pgoutput } from 'pg-logical-replication';
import { formatLsn, parseLsn } from '../change/lsn.ts';
import type { Lsn } from '../change/lsn.ts';
import { EmendError } from '../errors.ts';
import type { LsnBook } from './lsn-book.ts';
import { logSchema } from './names.ts';
import type { Packer } from './packer.ts';
import type { Layout } from './pile.ts';

/**
 * Follows the messages of one connection from begin to commit and gives the rows to the packer.
 *
 * Promise: every message kind has a policy, and whatever is not expected stops the stream. A message that was skipped
 * here would be confirmed with its neighbours and never be seen again.
 */
interface Assembler {
  take(message: Pgoutput.Message, bytes: number): void;
}

interface Parts {
  readonly targets: readonly string[];
  readonly packer: Packer;
  readonly book: LsnBook;
  /** Told once a connection of each log in the publication that is no target here. */
  readonly onForeignLog: (name: string) => void;
}

/** Rows of a log that this reader has no target for: not an error, since the sweep of whoever has it finds them in the log. */
const foreign = Symbol('foreign log');

export function createAssembler({ targets, packer, book, onForeignLog }: Parts): Assembler {
  const wanted = new Set(targets);
  const layouts = new Map<number, Layout | typeof foreign>();
  let inTransaction = false;
  let lastEnd: Lsn = 0n;

  function begin(message: Pgoutput.MessageBegin): void {
    if (inTransaction) throw violation('a transaction began inside another one');
    inTransaction = true;
    book.begin();
    packer.begin({
      commitLsn: position(message.commitLsn),
      committedAtMs: Number(message.commitTime.valueOf() / 1_000n),
    });
  }

  function describe(message: Pgoutput.MessageRelation): void {
    const { relationOid, schema, name } = message;
    if (schema !== logSchema) throw notALog(schema, name);
    if (!wanted.has(name)) {
      if (layouts.get(relationOid) !== foreign) onForeignLog(name);
      layouts.set(relationOid, foreign);
      return;
    }
    const columns = message.columns.map((column) => column.name);
    if (!columns.includes('_id')) throw violation(`${logSchema}.${name} has no column _id`);
    // The server repeats a description after any change of its caches; the rows before and after it belong together.
    const known = layouts.get(relationOid);
    if (known !== foreign && known?.target === name && known.columns.join('\0') === columns.join('\0'))
      return;
    layouts.set(relationOid, { target: name, columns });
  }

  function insert(message: Pgoutput.MessageInsert, bytes: number): void {
    if (!inTransaction) throw violation('a row came outside a transaction');
    const layout = layouts.get(message.relation.relationOid);
    if (!layout) throw violation('a row came before the description of its table');
    if (layout !== foreign) packer.row(layout, message.new, bytes);
  }

  function commit(message: Pgoutput.MessageCommit): void {
    if (!inTransaction) throw violation('a commit came without its begin');
    const end = position(message.commitEndLsn);
    if (end <= lastEnd) throw violation(`the commit at ${formatLsn(end)} came after ${formatLsn(lastEnd)}`);
    lastEnd = end;
    inTransaction = false;
    book.commit(end, packer.commit(end).hasRows);
  }

  return {
    take(message, bytes) {
      switch (message.tag) {
        case 'insert':
          return insert(message, bytes);
        case 'begin':
          return begin(message);
        case 'commit':
          return commit(message);
        case 'relation':
          return describe(message);
        // Where a transaction first came from, and the names of types: nothing that a row needs.
        case 'origin':
        case 'type':
          return;
        // The publication asks for inserts only, and nobody asked for messages.
        case 'update':
        case 'delete':
        case 'truncate':
        case 'message':
          throw violation(`a message of kind ${message.tag} came, which the publication does not ask for`);
        default:
          throw violation('a message of unknown kind came');
      }
    },
  };
}

function position(text: string | null): Lsn {
  if (text === null) throw violation('a transaction without a position came');
  return parseLsn(text);
}

export function violation(what: string, cause?: unknown): EmendError {
  return new EmendError('protocol_violation', `the replication stream is not as expected: ${what}`, {
    remedy:
      'Run `emend migrate`, which puts the publication right, then start again: nothing was confirmed, the rows come again.',
    cause,
  });
}

function notALog(schema: string, name: string): EmendError {
  return new EmendError(
    'protocol_violation',
    `the publication holds ${schema}.${name}, which is not a log of emend`,
    { remedy: 'Take the table out of the publication (alter publication … drop table …).' },
  );
}
