/**
 * What a Postgres error means for the work that met it. The one table of SQLSTATE classes
 * (https://www.postgresql.org/docs/current/errcodes-appendix.html).
 */
export type Verdict =
  /** Nothing is wrong with the rows: try again later. */
  | 'retry'
  /** Some row is at fault: halve the batch until it stands alone, then set it aside. */
  | 'halve'
  /** The store or the rights are not as migrated: no row is at fault and no retry helps until somebody acts. */
  | 'stop';

const verdictsByCode: Record<string, Verdict> = {
  '40001': 'retry', // serialization_failure
  '40P01': 'retry', // deadlock_detected
  '55P03': 'retry', // lock_not_available
  '55006': 'retry', // object_in_use
  '57014': 'retry', // query_canceled: statement_timeout, or somebody cancelled us
  EM005: 'halve', // emend.require_written: a trigger of the table changed a row, or kept it out
  '42804': 'halve', // datatype_mismatch: a value that the column's present type does not take
  '54000': 'halve', // program_limit_exceeded: a value that is too long for an index, or for a tsvector
  '54001': 'halve', // statement_too_complex: a value that is nested too deeply
};

const verdictsByClass: Record<string, Verdict> = {
  '08': 'retry', // connection exceptions
  '25': 'retry', // invalid transaction state: the client is replaced
  '53': 'retry', // insufficient resources
  '57': 'retry', // operator intervention: shutdown, crash, restart
  '58': 'retry', // system errors: I/O
  '22': 'halve', // data exceptions
  '23': 'halve', // integrity constraint violations
  '44': 'halve', // with check option violation
  P0: 'halve', // PL/pgSQL: a user's trigger refused the row, or asserts what it is not
};

/**
 * The classes that Postgres raises itself, and E: errors of Node and of emend's functions begin with it. Every other code is a
 * user's own (`raise … using errcode`), about a row.
 */
const classesNotOfUsers = /^(0|2|3|4[0-4]|5[3-8]|72|F0|HV|XX|E)/;

/** Errors of the socket, before Postgres could say anything. */
const networkErrors = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
]);

export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
}

export function verdictOf(error: unknown): Verdict {
  const code = sqlState(error);
  if (code === undefined || networkErrors.has(code)) return 'retry';
  const known = verdictsByCode[code] ?? verdictsByClass[code.slice(0, 2)];
  return known ?? (/^[0-9A-Z]{5}$/.test(code) && !classesNotOfUsers.test(code) ? 'halve' : 'stop');
}
