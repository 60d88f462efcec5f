import { describe, expect, test } from 'vitest';
import { createAssembler } from '../../src/capture/assembler.ts';
import { createLsnBook } from '../../src/capture/lsn-book.ts';
import { publicationName, slotName } from '../../src/capture/names.ts';
import { createPacker } from '../../src/capture/packer.ts';
import { RawTextPgoutput } from '../../src/capture/pgoutput.ts';
import { readWalMessage, standbyStatus } from '../../src/capture/wire.ts';

const text = (value: string): Buffer => Buffer.from(`${value}\0`);
const int16 = (value: number): Buffer => Buffer.from([value >> 8, value & 255]);
function int32(value: number): Buffer {
  const buffer = Buffer.alloc(4);
  buffer.writeInt32BE(value);
  return buffer;
}
function int64(value: bigint): Buffer {
  const buffer = Buffer.alloc(8);
  buffer.writeBigInt64BE(value);
  return buffer;
}

const begin = Buffer.concat([Buffer.from('B'), int64(95n), int64(0n), int32(7)]);
const commit = Buffer.concat([Buffer.from('C'), Buffer.from([0]), int64(95n), int64(100n), int64(0n)]);

function relation(columns: readonly string[], name = 'prices', schema = 'corrections', oid = 1): Buffer {
  const described = columns.flatMap((column) => [Buffer.from([0]), text(column), int32(1184), int32(-1)]);
  return Buffer.concat([
    Buffer.from('R'), int32(oid), text(schema), text(name), Buffer.from('d'), int16(columns.length), ...described,
  ]); // prettier-ignore
}

function insert(values: readonly (string | null)[], oid = 1): Buffer {
  const tuple = values.map((value) => {
    if (value === null) return Buffer.from('n');
    const bytes = Buffer.from(value);
    return Buffer.concat([Buffer.from('t'), int32(bytes.length), bytes]);
  });
  return Buffer.concat([Buffer.from('I'), int32(oid), Buffer.from('N'), int16(values.length), ...tuple]);
}

/** What the assembler said of logs that are no targets. */
const foreignLogs: string[] = [];

/** Runs messages through parser and assembler and returns the values that came out. */
function assemble(messages: readonly Buffer[]): (string | null)[][] {
  const out: (string | null)[][] = [];
  const parser = new RawTextPgoutput();
  const packer = createPacker({
    atomicRows: 10,
    atomicBytes: 1_000_000,
    emit: (batch) => out.push(...batch.parts.flatMap((part) => part.values.map((column) => [...column]))),
  });
  const assembler = createAssembler({
    targets: ['prices'],
    packer,
    book: createLsnBook(0n),
    onForeignLog: (name) => foreignLogs.push(name),
  });
  for (const message of messages) assembler.take(parser.parse(message), message.length);
  packer.flush();
  return out;
}

describe('row values', () => {
  test('a timestamp stays the text that the server wrote', () => {
    const at = '2026-01-01 00:00:00.123456+00';
    expect(assemble([begin, relation(['_id', 'at']), insert(['1', at]), commit])).toEqual([['1'], [at]]);
  });

  test('a leading U+FEFF is part of the value, in any column, beside nulls and empty texts', () => {
    const values = ['1', '\u{feff}first', null, '', 'in \u{feff} between', '\u{feff}'];
    const columns = ['_id', 'a', 'b', 'c', 'd', 'e'];
    expect(assemble([begin, relation(columns), insert(values), commit])).toEqual(
      values.map((value) => [value]),
    );
  });

  test('rows before and after a new column keep their own columns', () => {
    const values = assemble([
      begin, relation(['_id', 'a']), insert(['1', 'x']), relation(['_id', 'a', 'b']), insert(['2', 'y', 'z']), commit,
    ]); // prettier-ignore
    expect(values).toEqual([['1'], ['x'], ['2'], ['y'], ['z']]);
  });
});

test('rows of a log that is no target here are left in the log, and told once', () => {
  foreignLogs.length = 0;
  const other = relation(['_id', 'b'], 'other', 'corrections', 2);
  const values = assemble([
    begin, other, insert(['7', 'z'], 2), relation(['_id', 'a']), insert(['8', 'x']), other, insert(['9', 'z'], 2), commit,
  ]); // prettier-ignore
  expect(values).toEqual([['8'], ['x']]);
  expect(foreignLogs).toEqual(['other']);
});

describe('what is not expected stops the stream', () => {
  const described = relation(['_id', 'a']);
  const row = insert(['1', 'x']);
  const truncate = Buffer.concat([Buffer.from('T'), int32(1), Buffer.from([0]), int32(1)]);
  const cases: readonly (readonly [what: string, messages: Buffer[]])[] = [
    ['a table of another schema', [begin, relation(['_id'], 'prices', 'public')]],
    ['a log without _id', [begin, relation(['a'])]],
    ['a row outside a transaction', [described, row]],
    ['a begin inside a transaction', [begin, begin]],
    ['a commit without begin', [commit]],
    ['a commit that was there before', [begin, commit, begin, commit]],
    ['a truncate', [begin, described, truncate]],
  ];
  test.each(cases)('%s', (_, messages) => {
    expect(() => assemble(messages)).toThrow(expect.objectContaining({ code: 'protocol_violation' }));
  });

  test('a replication message of unknown kind', () => {
    expect(() => readWalMessage(Buffer.from('x'))).toThrow(
      expect.objectContaining({ code: 'protocol_violation' }),
    );
  });
});

describe('status update', () => {
  test('flush and apply are the confirmed position, never the received one', () => {
    const packet = standbyStatus({ received: 0x2_0000_0002n, confirmed: 0x1_0000_0001n, requestReply: true });
    expect(packet).toHaveLength(34);
    expect(packet.toString('latin1', 0, 1)).toBe('r');
    expect(packet.readBigUInt64BE(1)).toBe(0x2_0000_0002n);
    expect(packet.readBigUInt64BE(9)).toBe(0x1_0000_0001n);
    expect(packet.readBigUInt64BE(17)).toBe(0x1_0000_0001n);
    expect(packet[33]).toBe(1);
  });
});

test('names that could leave their quotes are refused', () => {
  expect(slotName('a1')).toBe('emend_a1');
  expect(publicationName('a1')).toBe('emend_a1');
  for (const bad of ['a"b', 'A', 'a,b', 'x'.repeat(60)]) {
    expect(() => slotName(bad)).toThrow(expect.objectContaining({ code: 'bad_arguments' }));
  }
});
