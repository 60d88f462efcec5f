import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { EmendError } from '../errors.ts';
import { isAlive } from './is-alive.ts';
import { asUser, serverUser, type OsUser } from './os-user.ts';
import { waitForEarlierServer } from './postgres-lock.ts';

/**
 * The data folder of a local PostgreSQL: made once, found again later.
 *
 * It is made under another name and moved into place when it is complete, so an interrupted run never leaves half a
 * cluster behind. `emend-dev.json` in it holds the password, and shows that emend made it: no other folder is touched.
 */
export interface Cluster {
  readonly dataDir: string;
  readonly password: string;
  readonly user: OsUser | undefined;
}

const markerName = 'emend-dev.json';

export async function prepareCluster(options: {
  readonly dataDir: string;
  readonly initdb: string;
  readonly keepContents: boolean;
}): Promise<Cluster> {
  const { initdb, keepContents } = options;
  mkdirSync(dirname(options.dataDir), { recursive: true });
  const dataDir = join(realpathSync(dirname(options.dataDir)), basename(options.dataDir));
  removeInterrupted(dataDir);
  if (existsSync(dataDir) && readdirSync(dataDir).length > 0) {
    const password = readPassword(dataDir);
    await waitForEarlierServer(dataDir);
    if (keepContents && existsSync(dataDir)) return { dataDir, password, user: ownerOf(dataDir) };
  }
  const user = serverUser();
  const password = randomBytes(18).toString('hex');
  const fresh = `${dataDir}.init-${process.pid}-${randomBytes(3).toString('hex')}`;
  const passwordFile = `${fresh}.password`;
  try {
    mkdirSync(fresh, { mode: 0o700 });
    writeFileSync(passwordFile, password, { mode: 0o600 });
    if (user !== undefined) for (const path of [fresh, passwordFile]) chownSync(path, user.uid, user.gid);
    await runInitdb(
      asUser(
        user,
        [initdb, '-D', fresh, ...initdbFlags(initdb), `--pwfile=${passwordFile}`],
        [initdb, fresh],
      ),
    );
    const marker = join(fresh, markerName);
    writeFileSync(marker, JSON.stringify({ madeBy: 'emend dev', password }), { mode: 0o600 });
    if (user !== undefined) chownSync(marker, user.uid, user.gid);
    rmSync(dataDir, { recursive: true, force: true });
    renameSync(fresh, dataDir);
  } finally {
    rmSync(passwordFile, { force: true });
    rmSync(fresh, { recursive: true, force: true });
  }
  return { dataDir, password, user };
}

function initdbFlags(initdb: string): string[] {
  // Same sort order everywhere: by code point, with Unicode upper and lower case.
  const locale = isBefore17(initdb)
    ? ['--locale=C.UTF-8']
    : ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  return [
    '--encoding=UTF8',
    ...locale,
    '--username=postgres',
    '--auth=scram-sha-256',
    '--no-sync',
    '--no-instructions',
  ];
}

/** The builtin provider came with 17. */
function isBefore17(initdb: string): boolean {
  const version = execFileSync(initdb, ['--version'], { encoding: 'utf8' });
  return Number(/(\d+)/.exec(version)?.[1]) < 17;
}

async function runInitdb(command: readonly string[]): Promise<void> {
  const [file = '', ...args] = command;
  try {
    await promisify(execFile)(file, args, { cwd: '/', env: { ...process.env, LC_ALL: 'C' } });
  } catch (cause) {
    const { stderr } = cause as { stderr?: string };
    throw new EmendError('server_unsuitable', `initdb failed: ${stderr ?? String(cause)}`, {
      remedy: 'Put right what it says, or set SOURCE_URL and STORE_URL to a PostgreSQL that runs already.',
      cause,
    });
  }
}

function readPassword(dataDir: string): string {
  try {
    return (JSON.parse(readFileSync(join(dataDir, markerName), 'utf8')) as { password: string }).password;
  } catch (cause) {
    throw new EmendError('server_unsuitable', `${dataDir} holds something that emend did not make`, {
      remedy: 'Name an empty folder, or one that does not exist yet.',
      cause,
    });
  }
}

/** A folder keeps its owner: the user `postgres` may have come to the machine after it was made. */
function ownerOf(dataDir: string): OsUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const { uid, gid } = statSync(dataDir);
  return { uid, gid };
}

/** Folders that an interrupted run had not finished. */
function removeInterrupted(dataDir: string): void {
  const prefix = `${basename(dataDir)}.init-`;
  for (const name of readdirSync(dirname(dataDir))) {
    if (!name.startsWith(prefix)) continue;
    const pid = Number.parseInt(name.slice(prefix.length), 10);
    if (!isAlive(pid)) rmSync(join(dirname(dataDir), name), { recursive: true, force: true });
  }
}
