// The tests exercise a real Redis. Where none is on PATH and we may, the distribution's package is installed, without
// its system service: the tests start servers of their own on free ports.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const howTo =
  'Redis is needed for the tests: install redis-server or valkey-server so that it is on PATH ' +
  '(Debian, Ubuntu: sudo apt-get install redis-server; Fedora: sudo dnf install valkey; macOS: brew install redis).';

export async function ensureRedis() {
  if (isOnPath('redis-server') || isOnPath('valkey-server')) return;
  if (process.getuid?.() !== 0 || !isOnPath('apt-get')) throw new Error(howTo);
  console.log('Installing redis-server with apt-get (without its service) ...');
  await apt(['update', '-q']);
  const remove = refuseServices();
  try {
    await apt(['install', '-y', '-q', '--no-install-recommends', 'redis-server']);
  } finally {
    remove();
  }
  if (existsSync('/run/systemd/system'))
    spawnSync('systemctl', ['disable', '--now', 'redis-server'], { stdio: 'ignore' });
  if (!isOnPath('redis-server')) throw new Error(howTo);
}

/** apt-get, quiet unless it fails; waits while another apt works (a second copy of the tests, unattended upgrades). */
async function apt(args) {
  for (let attempt = 1; ; attempt += 1) {
    const result = spawnSync('apt-get', ['-o', 'DPkg::Lock::Timeout=300', ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    });
    if (result.status === 0) return;
    if (/Could not get lock|Unable to lock/.test(result.stderr) && attempt < 60) {
      await sleep(2_000);
      continue;
    }
    throw new Error(`apt-get ${args[0]} failed:\n${result.stderr ?? result.error}\n${howTo}`);
  }
}

/** Debian asks /usr/sbin/policy-rc.d whether a package may start its service: 101 means no. An existing one is kept. */
function refuseServices() {
  const policy = '/usr/sbin/policy-rc.d';
  try {
    writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755, flag: 'wx' });
  } catch {
    return () => undefined;
  }
  return () => rmSync(policy, { force: true });
}

function isOnPath(name) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return folder !== '';
    } catch {
      return false;
    }
  });
}
