import { statSync, readFileSync, accessSync, constants } from 'node:fs';
import { dirname } from 'node:path';
import { EmendError } from '../errors.ts';

/**
 * PostgreSQL refuses to run as root. When we are root, it runs as the operating-system user `postgres`, or, where there
 * is none, as `nobody`: nothing is added to the machine. `undefined` means: run as we are.
 */
export interface OsUser {
  readonly uid: number;
  readonly gid: number;
}

export function serverUser(): OsUser | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const users = new Map(
    readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map((line) => line.split(':'))
      .map(([name, , uid, gid]) => [name, { uid: Number(uid), gid: Number(gid) }]),
  );
  const user = users.get('postgres') ?? users.get('nobody');
  if (user !== undefined) return user;
  throw new EmendError(
    'server_unsuitable',
    'PostgreSQL cannot run as root, and there is no user postgres or nobody',
    {
      remedy:
        'Run the command as a normal user, or set SOURCE_URL and STORE_URL to a server that runs already.',
    },
  );
}

/**
 * Puts `setpriv` in front of a command, so that it runs as `user`.
 *
 * A clone under /root cannot be entered by other users. Then, and only then, the server keeps the one capability that
 * lets it walk through such folders; setpriv can do this where a plain setuid cannot. (`no_setuid_fixup`: else access(2),
 * with which initdb looks for its parts, ignores the capability.)
 */
export function asUser(
  user: OsUser | undefined,
  command: readonly string[],
  paths: readonly string[],
): string[] {
  if (user === undefined) return [...command];
  const setpriv = ['/usr/bin/setpriv', '/bin/setpriv'].find(isExecutable);
  if (setpriv === undefined) {
    throw new EmendError(
      'dependency_missing',
      'PostgreSQL cannot run as root, and setpriv (util-linux) is not here',
      {
        remedy: 'Run the command as a normal user, or install util-linux.',
      },
    );
  }
  const capabilities = paths.every(isOpenToAll)
    ? []
    : ['--securebits=+no_setuid_fixup', '--inh-caps=-all,+dac_override', '--ambient-caps=-all,+dac_override'];
  return [
    setpriv,
    `--reuid=${user.uid}`,
    `--regid=${user.gid}`,
    '--clear-groups',
    ...capabilities,
    '--',
    ...command,
  ];
}

/** Whether any user may walk down to this path. */
function isOpenToAll(path: string): boolean {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
