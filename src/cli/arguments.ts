import { InvalidArgumentError } from 'commander';

/** For an option that is given several times. */
export function collect(value: string, earlier: readonly string[] = []): string[] {
  return [...earlier, value];
}

export function seconds(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError('It is a number of seconds, such as 30 or 0.5.');
}

export function positiveInteger(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value > 0) return value;
  throw new InvalidArgumentError('It is a whole number above zero.');
}

/** A full transaction id (xid8): the 32-bit one of `xmin` would name the wrong transaction after a wrap-around. */
export function transactionId(text: string): string {
  if (/^\d{1,20}$/.test(text) && BigInt(text) > 2n) return text;
  throw new InvalidArgumentError('It is what pg_current_xact_id() returned, such as 734.');
}

/** An `_id`; below zero for a row that was adopted with its table. */
export function correctionId(text: string): string {
  if (/^-?\d{1,19}$/.test(text)) return text;
  throw new InvalidArgumentError('It is the _id of a correction, such as 734.');
}

/** For an argument that is given several times. */
export function correctionIds(text: string, earlier: readonly string[] = []): string[] {
  return collect(correctionId(text), earlier);
}
