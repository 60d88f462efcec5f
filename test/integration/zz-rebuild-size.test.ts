import { it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { rebuild } from '../../src/pipeline/rebuild.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { createInstall } from '../support/install.ts';
import { waitUntilMerged } from '../../src/pipeline/wait.ts';
const { targets } = defineConfig({ targets: { prices: timeline('public.prices', { key: ['product'], period: ['valid_from', 'valid_to'] }), orders: facts('public.orders', { key: ['id'] }) } });
it('size', { timeout: 580_000 }, async () => {
  const install = await createInstall('size', { ddl: `create table public.prices (product text not null, valid_from date not null, valid_to date not null, price numeric); create table public.orders (id bigint primary key, amount numeric)`, targets });
  const p = await install.start();
  await install.source.query(`insert into corrections.prices (product, valid_from, valid_to, price) select 'p' || n % 20000, date '2026-01-01' + (n / 20000) * 3, date '2026-01-01' + (n/20000)*3 + 10, n from generate_series(1, 150000) n; insert into corrections.orders (id, amount) select n, n from generate_series(1,100000) n`);
  await waitUntilMerged({ config: install.config, timeoutMs: 300_000 });
  await p.stop();
  const timed = async (what: string, f: () => Promise<unknown>) => { const a = performance.now(); const r = await f() as any; console.log(what, Math.round(performance.now() - a), JSON.stringify(r.written ?? r[0]?.found), r.keys); };
  for (const t of ['prices', 'orders']) {
    await timed('verify ' + t, () => verify(install.config, { target: t }));
    await timed('rebuild right ' + t, () => rebuild(install.config, t));
    await install.store.query(`truncate public.${t}, emend.${t}_history, emend.${t}_shadow, emend.${t}_tombstone`);
    let last = ''; let at = performance.now();
    await timed('rebuild all ' + t, () => rebuild(install.config, t, { swap: true, reason: 'x', onProgress: (x) => { const k = x.replace(/[0-9,]+/g, ''); if (k !== last) { console.log('  ', Math.round(performance.now() - at), x); last = k; } } }));
    await timed('verify ' + t, () => verify(install.config, { target: t }));
    console.log((await install.store.query(`select * from emend.rebuild order by id desc limit 1`)).rows);
  }
});
