import { EmendError } from '../errors.ts';
import { sqlState } from './sqlstate.ts';

/** Which setting the connection came from. */
export interface ConnectionSetting {
  /** `source.url` */
  readonly path: string;
  /** `SOURCE_URL` */
  readonly env: string;
  readonly url: string;
}

/**
 * What a failed connection means for the person who wrote the URL: which setting, which server, what to do.
 * Password and query parameters of the URL are never in it.
 *
 * `connection_invalid` where the server answered and refuses: the setting has to change. `connection_failed` where none
 * answered, or it cannot take anybody just now: the setting may be right.
 */
export function connectError(error: unknown, setting: ConnectionSetting): EmendError {
  const { server, database, user } = placeOf(setting.url);
  const { problem, remedy, isAway } = explain(error, { ...setting, server, database, user });
  const code = isAway === true ? 'connection_failed' : 'connection_invalid';
  return new EmendError(code, `${setting.path}: ${problem}`, { remedy, cause: error });
}

interface Place extends ConnectionSetting {
  readonly server: string;
  readonly database: string;
  readonly user: string;
}

interface Explanation {
  readonly problem: string;
  readonly remedy: string;
  readonly isAway?: boolean;
}

function explain(error: unknown, place: Place): Explanation {
  const { server, database, user, path, env } = place;
  const setting = `${path} (${env})`;
  const message = error instanceof Error ? error.message : '';
  const code = sqlState(error) ?? '';
  if (code === '28000' && message.includes('pg_hba.conf')) {
    return {
      problem: `${server} does not let user ${user} into database ${database} from here`,
      remedy: `Add a line to the server's pg_hba.conf for this user, database and address, or change ${setting}.${message.includes('no encryption') ? ' The server may only allow TLS: add ?sslmode=require.' : ''}`,
    };
  }
  if (code === '28P01' || code === '28000') {
    return {
      problem: `${server} refused the password of user ${user}, or there is no such user`,
      remedy: `Correct user and password in ${setting}.`,
    };
  }
  if (message.includes('password must be a string') || message.includes('no password supplied')) {
    return {
      problem: `${server} wants a password for user ${user}`,
      remedy: `Put the password into ${setting}.`,
    };
  }
  if (code === '3D000') {
    return {
      problem: `${server} has no database ${database}`,
      remedy: `Create it (create database "${database}";) or correct ${setting}.`,
    };
  }
  if (code.startsWith('53')) {
    return {
      problem: `${server} has no connection left (${code})`,
      remedy: 'Raise max_connections of the server, or close what is not needed.',
      isAway: true,
    };
  }
  if (code.startsWith('57P0')) {
    return {
      problem: `${server} is starting up or shutting down`,
      remedy: 'Try again in a moment.',
      isAway: true,
    };
  }
  if (isTls(message, code)) {
    return {
      problem: `TLS with ${server} failed: ${message}`,
      remedy: `Set sslmode in ${setting}: disable, require, or verify-full with sslrootcert.`,
    };
  }
  if (error instanceof Error && 'severity' in error) {
    return {
      problem: `${server} refused the connection: ${message} (${code})`,
      remedy: `Correct what it says, or ${setting}.`,
    };
  }
  return {
    problem: `no Postgres answers at ${server}${reasons[code] ? `: ${reasons[code]}` : ''}`,
    remedy: `Start the server, or correct host and port in ${setting}.`,
    isAway: true,
  };
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens on this port',
  ENOTFOUND: 'the name of the host is not known',
  EAI_AGAIN: 'the name of the host could not be looked up',
  ETIMEDOUT: 'it does not answer in time',
  EHOSTUNREACH: 'there is no way to the host',
  ENOENT: 'there is no such socket',
};

function isTls(message: string, code: string): boolean {
  return (
    /ssl|tls|certificate|self.signed/i.test(message) || code.startsWith('ERR_TLS') || code.includes('CERT')
  );
}

/** Server, database and user of a URL, without its secrets. */
function placeOf(url: string): { server: string; database: string; user: string } {
  // a URL of a socket has no host: `postgres://user@/db?host=/run/postgresql`
  const text = url.replace('@/', '@localhost/');
  if (!URL.canParse(text)) return { server: 'the server', database: '', user: '' };
  const parsed = new URL(text);
  const host = parsed.searchParams.get('host') ?? parsed.hostname;
  const user = decodeURIComponent(parsed.username) || 'the operating system’s name';
  const database = decodeURIComponent(parsed.pathname.slice(1)) || user;
  const port = parsed.searchParams.get('port') ?? (parsed.port || '5432');
  return { server: `${host || 'localhost'}:${port}`, database, user };
}
