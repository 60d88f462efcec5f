// Makes a fresh clone ready: `node .ci/prepare.mjs [--redis] [--build]`. Plain JavaScript without dependencies, because
// it is what installs them. Once everything is there it needs no network and takes a moment.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { build, isStale } from './build.mjs';
import { ensureRedis } from './redis.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Runs `npm ci` unless what is installed is what package-lock.json says. */
export function ensureInstalled() {
  if (isInstalled()) return;
  const started = Date.now();
  console.log('Installing dependencies (npm ci) ...');
  const args = ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'];
  const npm = process.env.npm_execpath;
  const options = { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] };
  const { status } = npm?.endsWith('.js') // the npm that runs us, else the one on PATH
    ? spawnSync(process.execPath, [npm, ...args], options)
    : spawnSync('npm', args, options);
  if (status !== 0) throw new Error('npm ci failed: see its messages above');
  console.log(`Installed in ${Math.round((Date.now() - started) / 1000)} s.`);
}

/**
 * npm notes in node_modules/.package-lock.json what it has installed, at the very end. Comparing contents (not times, which
 * a clone or a cache changes) also notices an install that was interrupted.
 */
function isInstalled() {
  try {
    const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages;
    const installed = JSON.parse(
      readFileSync(join(root, 'node_modules', '.package-lock.json'), 'utf8'),
    ).packages;
    return Object.entries(wanted).every(
      ([path, { version, optional }]) =>
        path === '' ||
        (installed[path] === undefined ? optional === true : installed[path].version === version),
    );
  } catch {
    return false;
  }
}

/** One at a time in one clone: `npm test` and `npm run demo` may be started together. */
async function withLock(fn) {
  const lock = join(root, '.emend', 'prepare.lock');
  mkdirSync(join(root, '.emend'), { recursive: true });
  for (let told = false; ;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' });
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (!isAlive(readPid(lock))) rmSync(lock, { force: true });
    else if (!told) {
      console.log(
        `Waiting for process ${readPid(lock)}, which prepares this folder (if it is gone: rm ${lock}) ...`,
      );
      told = true;
    }
    await sleep(300);
  }
  try {
    await fn();
  } finally {
    rmSync(lock, { force: true });
  }
}

function readPid(file) {
  try {
    return Number(readFileSync(file, 'utf8'));
  } catch {
    return 0; // just removed
  }
}

function isAlive(pid) {
  try {
    // 0 is an empty file that its writer is filling just now; its own process group always exists.
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    await withLock(async () => {
      ensureInstalled();
      if (process.argv.includes('--redis')) await ensureRedis();
      if (process.argv.includes('--build') && isStale()) {
        console.log('Building ...');
        build();
      }
    });
  } catch (error) {
    console.error(`emend: ${error.message}`);
    process.exit(1);
  }
}
