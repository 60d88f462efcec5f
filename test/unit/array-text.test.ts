import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { arrayText } from '../../src/db/array-text.ts';
import { createPool } from '../../src/db/pool.ts';
import { createDatabases } from '../support/databases.ts';

const seed = Math.floor(Math.random() * 2 ** 31);

it(`every text arrives in Postgres as it was, whatever stands in it (seed ${seed})`, async () => {
  const { storeUrl } = await createDatabases('array text');
  const pool = createPool({ url: storeUrl, applicationName: 'emend test', max: 1 });
  onTestFinished(() => pool.end());
  const special = fc.constantFrom(
    '"',
    '\\',
    ',',
    '{',
    '}',
    ' ',
    '',
    'NULL',
    'null',
    '\n',
    '\t',
    "'",
    '€',
    '😀',
    '\u{feff}',
  );
  const text = fc.oneof(
    special,
    fc.array(special, { maxLength: 6 }).map((all) => all.join('')),
    fc.string(),
  );
  const texts = fc.array(fc.option(text, { nil: null }), { maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(texts, async (given) => {
      const sent = given.map((each) => each?.replaceAll('\0', '') ?? null);
      const { rows } = await pool.query<{ texts: string }>(`select to_json($1::text[])::text as texts`, [
        arrayText(sent),
      ]);
      expect(JSON.parse(rows[0]!.texts)).toEqual(sent);
    }),
    { seed, numRuns: 500 },
  );
});
