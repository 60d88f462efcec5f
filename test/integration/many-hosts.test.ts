import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { migrate } from '../../src/pipeline/migrate.ts';
import { readStatus } from '../../src/pipeline/status.ts';
import { ensureBuilt } from '../faults/built-cli.ts';
import { expectModel } from '../faults/compare.ts';
import { startProcesses } from '../faults/processes.ts';
import type { Processes } from '../faults/processes.ts';
import { configTextOf, ddl, targets } from '../faults/targets.ts';
import { runWriter } from '../faults/writer.ts';
import { eventually } from '../support/eventually.ts';
import { createHost } from '../support/hosts.ts';
import type { Host } from '../support/hosts.ts';
import { createInstall, environmentOf } from '../support/install.ts';
import { transactionsOf } from '../support/transactions.ts';

const readers = 2;
const hour = 3_600_000;

beforeAll(ensureBuilt);

/** A reader of one share and a worker. Its clock goes wrong by hours: nothing may depend on what it shows. */
async function startHost(
  urls: Parameters<typeof createHost>[0]['urls'],
  { share, clockAheadMs, timeZone }: { share: number; clockAheadMs: number; timeZone: string },
): Promise<{ host: Host; processes: Processes }> {
  const host = await createHost({
    configText: configTextOf(readers),
    urls,
    clockAheadMs,
    env: { EMEND_FAULTS_SHARE: String(share), TZ: timeZone },
  });
  const processes = startProcesses(host, { readers: 1, workers: 1 });
  onTestFinished(async () => void (await processes.end()));
  return { host, processes };
}

it(
  'two hosts with a reader and a worker each, some of which are killed, merge every transaction once, and whole',
  { timeout: 180_000 },
  async () => {
    const install = await createInstall('many hosts', { ddl, targets });
    const config = { ...install.config, capture: { ...install.config.capture, readers } };
    await migrate({ config, print: false });
    const urls = environmentOf(install) as Parameters<typeof createHost>[0]['urls'];
    const one = await startHost(urls, { share: 1, clockAheadMs: 2 * hour, timeZone: 'Pacific/Auckland' });
    const two = await startHost(urls, { share: 2, clockAheadMs: -5 * hour, timeZone: 'America/Lima' });
    if (process.getuid?.() === 0 && process.platform === 'linux')
      expect([one.host.isNetworkApart, two.host.isNetworkApart]).toEqual([true, true]);
    await Promise.all([one.processes.ready(), two.processes.ready()]);
    const status = await readStatus(config);
    expect(status.readers.map(({ slot }) => slot!.state)).toEqual(['reading', 'reading']);
    const slots = status.readers.map(({ slot }) => slot!.name);
    expect(one.processes.output()).toContain(`"slot":"${slots[0]}"`);
    expect(one.processes.output()).not.toContain(`"slot":"${slots[1]}"`);
    expect(two.processes.output()).toContain(`"slot":"${slots[1]}"`);

    for (const [{ processes }, aheadMs] of [
      [one, 2 * hour],
      [two, -5 * hour],
    ] as const) {
      const [said] = /"time":"[^"]*"|"time":\d+/.exec(processes.output())!;
      const time = Number(new Date(JSON.parse(`{${said}}`).time as string));
      expect(Math.abs(time - Date.now() - aheadMs)).toBeLessThan(600_000);
    }

    const writing = Promise.all(
      [1, 2, 3].map((seed) =>
        runWriter(config.source.url, 300, transactionsOf(seed, 120), performance.now() + 120_000),
      ),
    );
    await sleep(1_500);
    two.processes.kill(two.processes.readers[0]!, 1_500);
    one.processes.kill(one.processes.workers[0]!, 1_500);
    await sleep(2_500);
    one.processes.kill(one.processes.readers[0]!, 200);
    two.processes.kill(two.processes.workers[0]!, 200);
    const committed = (await writing).flat();

    await two.host.expect(['wait', '--timeout', '100']);
    const shares = await install.source.query<{ share: string }>(
      `select distinct (hash_record_extended(row(_xid), 0) & 255) % 2 as share from corrections.f order by 1`,
    );
    expect(shares.rows).toEqual([{ share: '0' }, { share: '1' }]);
    await one.host.expect(['verify']);
    await eventually(async () => expect((await readStatus(config)).problems).toEqual([]), {
      timeoutMs: 30_000,
    });
    expect([...(await one.processes.end()), ...(await two.processes.end())]).toEqual([]);
    for (const { processes } of [one, two])
      expect(processes.output().match(/ended with SIGKILL/g)).toHaveLength(2);
    await expectModel({ ...install, atomicRows: 1_000, committed, backfills: new Map() });
  },
);
