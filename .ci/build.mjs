// Compiles src to dist. dist is made beside and moved into place, so that whoever runs it meanwhile keeps a whole one.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const stamp = join(dist, '.built');

/** True when something that goes into the build is newer than it. Folders count too: they change when a file goes. */
export function isStale() {
  if (!existsSync(stamp)) return true;
  const built = statSync(stamp).mtimeMs;
  const inputs = ['tsconfig.json', 'tsconfig.build.json', 'package-lock.json', 'src'].map((name) =>
    join(root, name),
  );
  for (let path = inputs.pop(); path !== undefined; path = inputs.pop()) {
    const status = statSync(path);
    if (status.mtimeMs > built) return true;
    if (status.isDirectory()) for (const name of readdirSync(path)) inputs.push(join(path, name));
  }
  return false;
}

export function build() {
  const started = new Date();
  const fresh = `${dist}.${process.pid}`;
  try {
    const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const args = [tsc, '-p', 'tsconfig.build.json', '--outDir', fresh];
    const { status } = spawnSync(process.execPath, args, {
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    if (status !== 0) throw new Error('the build failed: see the messages of tsc above');
    const cli = join(fresh, 'cli', 'cli.js');
    if (existsSync(cli)) {
      if (!readFileSync(cli, 'utf8').startsWith('#!'))
        throw new Error('src/cli/cli.ts must begin with #!/usr/bin/env node');
      chmodSync(cli, 0o755);
    }
    // The time at which the build began: what changed meanwhile counts as newer.
    writeFileSync(join(fresh, '.built'), `${started.toISOString()}\n`);
    utimesSync(join(fresh, '.built'), started, started);
    const old = `${fresh}.old`;
    if (existsSync(dist)) renameSync(dist, old);
    renameSync(fresh, dist);
    rmSync(old, { recursive: true, force: true });
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    build();
  } catch (error) {
    console.error(`emend: ${error.message}`);
    process.exit(1);
  }
}
