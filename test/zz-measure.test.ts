import { createWriteStream, rmSync } from 'node:fs';
import { once } from 'node:events';
import { test } from 'vitest';
import { loadRows } from '../src/backfill/load.ts';
import { readRecords } from '../src/backfill/read-rows.ts';
import { openBackfill, sealBackfill } from '../src/log/backfill.ts';
import { createDatabases } from './support/databases.ts';
import { createSource } from './support/source.ts';
test('measure', async () => {
  const databases = await createDatabases('measure');
  const db = await createSource(databases,
    `create table public.fares (route text not null, cabin text not null, valid_from date not null, valid_to date not null, price numeric(10,2) not null, currency text not null, note text)`,
    [{ name: 'fares', kind: 'timeline', key: ['route','cabin'], period: { from: 'valid_from', to: 'valid_to', mode: 'override' } }]);
  const N = 500_000, path = '/tmp/zz-fares.csv';
  const out = createWriteStream(path); out.write('route,cabin,valid_from,valid_to,price,currency,note\n');
  for (let n = 0; n < N; n++) if (!out.write(`R${n},Y,2026-09-01,2026-10-01,${100 + (n % 977) / 4},EUR,${n % 3 ? '' : 'renegotiated'}\n`)) await once(out, 'drain');
  out.end(); await once(out, 'finish');
  const name = 'big';
  await openBackfill(db.source, { name, targets: ['fares'], reason: 'x', logicVersion: 'x' });
  let peak = 0;
  const run = () => loadRows({ source: db.source, target: db.targets[0]!, name, input: 'f', rows: readRecords({ path, remedy: '' }), onProgress: () => { peak = Math.max(peak, process.memoryUsage.rss()); } });
  let t = performance.now(); await run(); console.log('load', Math.round(N / ((performance.now() - t) / 1000)), 'rows/s peak MB', Math.round(peak / 1e6));
  t = performance.now(); await run(); console.log('again', Math.round(performance.now() - t), 'ms');
  t = performance.now(); await sealBackfill(db.source, name); console.log('seal', Math.round(performance.now() - t), 'ms');
  rmSync(path); await db.source.end(); await db.store.end();
}, 300_000);
