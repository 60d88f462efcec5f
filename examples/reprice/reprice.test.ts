import { expect, it } from 'vitest';
import { createDatabases } from '../../test/support/databases.ts';
import { playReprice } from './reprice.ts';

it('a contract re-prices September, wrongly, is taken back, and re-prices it rightly, while live corrections arrive', async () => {
  const said: string[] = [];
  const fares = await playReprice(await createDatabases('reprice'), 40, {
    say: (text) => said.push(text),
    table: (header, rows) => said.push(...[header, ...rows].map((line) => line.join(' '))),
  });
  expect(fares).toEqual([
    ['147.90', '56.76', '112.34', '124.41'],
    ['130.15', '49.95', '59.00', '124.41'],
    ['147.90', '56.76', '59.00', '124.41'],
    ['130.15', '56.76', '59.00', '124.41'],
  ]);
  expect(said.join('\n')).toMatch(/The answer is 49\.95[^]*Reverted[^]*samples_differing 0 at most 0 pass/);
});
