import { Redis, ReplyError } from 'ioredis';
import type { Problem } from '../errors.ts';
import { within } from './deadline.ts';
import { codeOf } from './error-log.ts';
import { addressOf } from './home.ts';
import type { Inspection, QueueServerState } from './inspection.ts';

const timeoutMs = 5_000;
const oldest = [6, 2] as const;

export async function inspectRedis(url: string, prefix: string): Promise<Inspection> {
  const address = addressOf({ redisUrl: url });
  if (!isRedisUrl(url)) {
    return { state: 'unfit', problems: [problem('this is not the address of a Redis server', howToWrite)] };
  }
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: timeoutMs,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  let connectionError: unknown;
  client.on('error', (error) => {
    connectionError ??= error;
  });
  try {
    await within(timeoutMs, client.connect(), 'connecting to Redis');
    const info = await within(timeoutMs, client.info(), 'asking Redis');
    const settings = judge(parseInfo(info));
    const refused = await tryCommands(client, prefix);
    const problems = [...settings, ...refused.map(({ name, code }) => refusedCommand(name, code))];
    return {
      state: settings.length > 0 ? 'unfit' : stateOf(refused),
      problems: withoutRepetitions(problems),
    };
  } catch (error) {
    return explain(codeOf(connectionError ?? error), address);
  } finally {
    client.disconnect();
  }
}

const howToWrite = 'Write it as redis://host:6379, or rediss://user:password@host:6379 with TLS.';

function isRedisUrl(url: string): boolean {
  if (url.startsWith('/')) return true;
  return URL.canParse(url) && ['redis:', 'rediss:'].includes(new URL(url).protocol);
}

function explain(code: string, address: string): Inspection {
  switch (code) {
    case 'WRONGPASS':
    case 'NOAUTH':
      return {
        state: 'unfit',
        problems: [
          problem(
            `${address} refuses the user or password (${code})`,
            'Put the right ones into REDIS_URL: redis://user:password@host:6379.',
          ),
        ],
      };
    case 'NOPERM':
      return { state: 'unfit', problems: [missingRight('INFO')] };
    default:
      if (isTls(code)) {
        return {
          state: 'unfit',
          problems: [
            problem(
              `TLS with ${address} failed (${code})`,
              'Write redis:// for a server without TLS, rediss:// for one with it, and see that its certificate is trusted here.',
            ),
          ],
        };
      }
      return {
        state: 'away',
        problems: [
          problem(
            `${address} cannot be reached (${code})`,
            'Start Redis, correct the address, or leave queue.redis and REDIS_URL out: the queue is then kept in the store.',
          ),
        ],
      };
  }
}

function isTls(code: string): boolean {
  return code === 'EPROTO' || /^ERR_(SSL|TLS)|CERT/.test(code);
}

/** Decides by what the server says about itself. A managed server may hide a line: what is not said is not refused. */
function judge(info: ReadonlyMap<string, string>): Problem[] {
  const problems: Problem[] = [];
  const version = info.get('redis_version');
  if (version && isOlder(version)) {
    problems.push(problem(`Redis ${version} is too old`, 'Use Redis 6.2 or newer, or Valkey.'));
  }
  // Refused without a memory limit too: whoever sets one later would otherwise lose jobs without a word.
  const policy = info.get('maxmemory_policy');
  if (policy && policy !== 'noeviction') {
    problems.push(
      problem(
        `the maxmemory-policy is ${policy}: Redis would throw queued corrections away when its memory is full`,
        'Set maxmemory-policy to noeviction (CONFIG SET maxmemory-policy noeviction, and in redis.conf), or use another Redis for the queue.',
      ),
    );
  }
  if (info.get('cluster_enabled') === '1') {
    problems.push(
      problem(
        'this is a node of a Redis Cluster',
        'Use a Redis without cluster mode for the queue: it needs one node only.',
      ),
    );
  }
  return problems;
}

function parseInfo(info: string): Map<string, string> {
  const lines = info.split(/\r?\n/).filter((line) => line.includes(':'));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]));
}

function isOlder(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major < oldest[0] || (major === oldest[0] && minor < oldest[1]);
}

interface Refused {
  readonly name: string;
  /** As Redis says it: `NOPERM`. */
  readonly code: string;
}

/** Rights, a read-only replica and a full disk show themselves only when one tries what the queue will do. */
async function tryCommands(client: Redis, prefix: string): Promise<Refused[]> {
  const key = `${prefix}:check`;
  const commands: [name: string, run: () => Promise<unknown>][] = [
    [
      'EVAL',
      () =>
        client.eval(`redis.call('set', KEYS[1], '1', 'px', 1000) return redis.call('del', KEYS[1])`, 1, key),
    ],
    ['BZPOPMIN', () => client.bzpopmin(key, 0.01)],
  ];
  const refused: Refused[] = [];
  for (const [name, run] of commands) {
    try {
      await within(timeoutMs, run(), `trying ${name}`);
    } catch (error) {
      // a server that went away meanwhile refuses nothing
      if (!(error instanceof ReplyError)) throw error;
      refused.push({ name, code: codeOf(error) });
    }
  }
  return refused;
}

/** No memory, no disk to save to, too few replicas: the same server under the same configuration is well again. */
const passing = ['OOM', 'MISCONF', 'NOREPLICAS'];

function stateOf(refused: readonly Refused[]): QueueServerState {
  if (refused.length === 0) return 'fit';
  return refused.every(({ code }) => passing.includes(code)) ? 'stalled' : 'unfit';
}

/** What is not about a command is told once. */
function withoutRepetitions(problems: readonly Problem[]): Problem[] {
  return problems.filter(
    ({ problem: said }, place) => problems.findIndex((other) => other.problem === said) === place,
  );
}

function refusedCommand(name: string, code: string): Problem {
  switch (code) {
    case 'NOPERM':
      return missingRight(name);
    case 'READONLY':
      return problem('this Redis is a read-only replica', 'Put the address of the primary into REDIS_URL.');
    case 'OOM':
      return problem(
        'Redis has no memory left',
        'Raise maxmemory or free memory; jobs already queued are kept.',
      );
    case 'MISCONF':
      return problem(
        'Redis refuses writes because it cannot save to disk',
        'Free disk space where Redis saves, then look at its log.',
      );
    case 'NOREPLICAS':
      return problem(
        'Redis refuses writes because too few replicas follow it',
        'Let them follow it again, or set min-replicas-to-write to what there is.',
      );
    default:
      return problem(`Redis refuses ${name} (${code})`, 'Look at the log of Redis.');
  }
}

function missingRight(name: string): Problem {
  return problem(
    `the user of Redis may not run ${name}`,
    'Give it the commands and keys of the queue: ACL SETUSER <user> on ~{emend-* +@all -@dangerous +info.',
  );
}

function problem(text: string, remedy: string): Problem {
  return { path: 'queue.redis', problem: text, remedy };
}
