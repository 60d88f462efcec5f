import { it } from 'vitest';
import { createDatabases } from '../support/databases.ts';
import { batchOf, createStore, logRows, noAbort } from '../support/store.ts';
it('cols', async () => {
 const said: string[] = [];
 for (const name of ['won', 'stated', 'part', 'part_from', 'during', 'k', 'reach', 'holds_until', 'winning_op', 'c', 'p', 's', 'w', 'span', 'rows', 'key', 'told']) {
  const { storeUrl } = await createDatabases('cols');
  const store = await createStore(storeUrl, `create table public.x (id text not null, ${name} text, f date not null, t date not null); create table public.y (id text not null, ${name} text, f date not null, t date not null); create table public.z (id text not null, ${name} text)`, [
    { name: 'x', kind: 'timeline', key: ['id'], period: { from: 'f', to: 't', mode: 'override' } },
    { name: 'y', kind: 'timeline', key: ['id'], period: { from: 'f', to: 't', mode: 'until_next' } },
    { name: 'z', kind: 'facts', key: ['id'] },
  ]);
  for (const target of store.targets) {
    try {
      await store.handle(batchOf(logRows(target, [{ _id: 1 + store.targets.indexOf(target), id: 'a', [name]: 'x', f: '2020-01-01', t: '2021-01-01' }])), noAbort);
      const { rows } = await store.pool.query(`select count(*) as n from public.${target.name}`);
      if (rows[0].n !== '1') said.push(`${name} ${target.name} SET ASIDE ` + JSON.stringify((await store.pool.query('select reason from emend.dead_letter')).rows));
    } catch (error) { said.push(`${name} ${target.name} ${(error as Error).message}`); }
  }
  await store.pool.end();
 }
 throw new Error(said.join('\n'));
}, 100000);
