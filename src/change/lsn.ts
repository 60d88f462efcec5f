/**
 * A position in the source's write-ahead log, as a bigint: texts of one position differ in their leading zeros,
 * so positions are compared as numbers only.
 */
export type Lsn = bigint;

export function parseLsn(text: string): Lsn {
  const match = /^([0-9a-f]{1,8})\/([0-9a-f]{1,8})$/i.exec(text);
  if (!match) throw new TypeError(`not an LSN: ${JSON.stringify(text)}`);
  return (BigInt(`0x${match[1]}`) << 32n) | BigInt(`0x${match[2]}`);
}

export function formatLsn(lsn: Lsn): string {
  return `${(lsn >> 32n).toString(16).toUpperCase()}/${(lsn & 0xffffffffn).toString(16).toUpperCase()}`;
}
