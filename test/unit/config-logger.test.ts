import { DrizzleQueryError } from 'drizzle-orm/errors';
import pg from 'pg';
import { expect, it } from 'vitest';
import { connectError } from '../../src/db/connect-error.ts';
import { describeError } from '../../src/observe/describe-error.ts';
import { maskPasswords } from '../../src/observe/mask-passwords.ts';

it.each([
  ['postgres://app:hunter2@db:5432/x', 'postgres://app:***@db:5432/x'],
  ['{"url":"redis://:hunter2@queue:6379"}', '{"url":"redis://:***@queue:6379"}'],
  [
    'from postgres://a:hunter2@h/x to postgresql://b:hunter2@p@h/y.',
    'from postgres://a:***@h/x to postgresql://b:***@h/y.',
  ],
  ['https://example.org/a:b and user@host', 'https://example.org/a:b and user@host'],
])('a password in %s is masked', (text, masked) => {
  expect(maskPasswords(text)).toBe(masked);
});

function serverError(fields: Partial<pg.DatabaseError> & { message: string }): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError(fields.message, 0, 'error'), { severity: 'ERROR' }, fields);
}

it('an error in the log keeps code, names and cause, and no value of a row', () => {
  const refused = serverError({
    message: 'invalid input syntax for type numeric: "4111-1111"',
    code: '22P02',
    detail: 'Key (card)=(4111-1111)',
    where: 'unnamed portal parameter $1 = 4111-1111',
    hint: '4111-1111',
    table: 'orders',
  });
  const description = describeError(
    new DrizzleQueryError('insert into x values ($1)', ['4111-1111'], refused),
  );
  expect(description).toMatchObject({ message: 'a query failed', cause: { code: '22P02', table: 'orders' } });
  expect(JSON.stringify(description)).not.toContain('4111');
  const raised = describeError(serverError({ message: 'no: 4111-1111', code: 'P0001' }));
  expect(JSON.stringify(raised)).not.toContain('4111');
});

it.each([
  [{ code: '28P01', message: 'password authentication failed' }, /refused the password of user app/],
  [{ code: '28000', message: 'no pg_hba.conf entry for host' }, /pg_hba/],
  [{ code: '3D000', message: 'database "x" does not exist' }, /no database x/],
  [{ code: 'ECONNREFUSED', message: '' }, /nothing listens/],
  [{ code: 'ENOTFOUND', message: '' }, /host is not known/],
  [{ message: 'The server does not support SSL connections' }, /TLS/],
])('the connection error %j names the setting and never the password', (fields, text) => {
  const error = connectError(Object.assign(new Error(), fields), {
    path: 'source.url',
    env: 'SOURCE_URL',
    url: 'postgres://app:hunter2@db:5433/x',
  });
  expect(error.message).toMatch(/^source\.url: .*db:5433/);
  expect(`${error.message} ${error.remedy}`).toMatch(text);
  expect(error.remedy + error.message).not.toContain('hunter2');
});
