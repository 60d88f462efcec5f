import type { Problem } from '../errors.ts';
import { checkTargets } from './check-targets.ts';
import type { ResolvedConfig } from './resolved-config.ts';
import { Findings, kindOf } from './findings.ts';
import { numberOptions, urlOptions } from './options.ts';
import { checkPromoteTimes } from './promote-times.ts';
import type { NumberOption, UrlOption } from './options.ts';

type Env = Readonly<Record<string, string | undefined>>;

const sections = ['source', 'store', 'queue', 'targets', 'capture', 'merge', 'log', 'promote'] as const;

/** Reads everything and finds every problem. The configuration is whole only where there are none. */
export function checkConfig(input: unknown, env: Env): { config: ResolvedConfig; problems: Problem[] } {
  const findings = new Findings();
  const root = findings.object(input, 'default export', 'Write: export default defineConfig({ … })');
  // all that it lacks would only hide that it is none
  if (!root) return { config: checkConfig({}, env).config, problems: findings.problems };
  findings.unknownKeys(root, sections, '');
  const section = readSections(root, findings);

  const urls = new Map(
    urlOptions.map((option) => [option.path, readUrl(section(option.path), option, env, findings)]),
  );
  const numbers = new Map(
    numberOptions.map((option) => [option.path, readNumber(section(option.path), option, findings)]),
  );
  const sourceUrl = urls.get('source.url') ?? '';
  const config: ResolvedConfig = {
    source: { url: sourceUrl, replicationUrl: urls.get('source.replicationUrl') ?? sourceUrl },
    store: { url: urls.get('store.url') ?? '' },
    queue: {
      redis: urls.get('queue.redis') ?? null,
      prefix: readPrefix(section('queue.prefix'), findings),
      maxBytes: numbers.get('queue.maxBytes')!,
    },
    targets: checkTargets(root['targets'], findings),
    capture: {
      atomicRows: numbers.get('capture.atomicRows')!,
      atomicBytes: numbers.get('capture.atomicBytes')!,
      lingerMs: numbers.get('capture.lingerMs')!,
      readers: numbers.get('capture.readers')!,
    },
    merge: { concurrency: numbers.get('merge.concurrency')! },
    log: { keepDays: numbers.get('log.keepDays')! },
    promote: checkPromoteTimes(root, findings),
  };
  return { config, problems: findings.problems };
}

/** Checks the sections' own shape and returns a look-up by path: `source.url`. */
function readSections(root: Record<string, unknown>, findings: Findings): (path: string) => unknown {
  const paths = [...[...urlOptions, ...numberOptions].map((option) => option.path as string), 'queue.prefix'];
  const values = new Map<string, unknown>();
  for (const name of sections.filter(
    (each) => !['targets', 'promote'].includes(each) && root[each] !== undefined,
  )) {
    const known = paths
      .filter((path) => path.startsWith(`${name}.`))
      .map((path) => path.slice(name.length + 1));
    const value = findings.object(root[name], name, `Write: ${name}: { ${known[0]}: … }`);
    if (!value) continue;
    findings.unknownKeys(value, known, name);
    for (const key of known) values.set(`${name}.${key}`, value[key]);
  }
  return (path) => values.get(path);
}

/** What the user wrote, else what the environment says; empty texts count as left out. */
function readUrl(value: unknown, option: UrlOption, env: Env, findings: Findings): string | null {
  const { path, kind } = option;
  const url = value === undefined || value === '' ? env[option.env] : value;
  if (url === undefined || url === '') {
    if (option.fallback === null) {
      findings.add(
        path,
        'is missing',
        `Set ${option.env} in the environment, for example ${exampleUrls[kind]}.`,
      );
    }
    return null;
  }
  if (typeof url !== 'string') {
    findings.add(path, `is ${kindOf(url)}, not a text`, `Write a URL such as ${exampleUrls[kind]}.`);
    return null;
  }
  if (!isUrl(url, kind)) {
    findings.add(
      path,
      `is not a ${kind === 'postgres' ? 'Postgres' : 'Redis'} URL`,
      `Write ${exampleUrls[kind]} (or set ${option.env}); percent-encode special characters in the password.`,
    );
  }
  return url;
}

const exampleUrls = {
  postgres: 'postgres://user:password@host:5432/database',
  redis: 'redis://user:password@host:6379',
};

function isUrl(text: string, kind: UrlOption['kind']): boolean {
  const schemes = kind === 'postgres' ? /^postgres(ql)?:\/\//i : /^rediss?:\/\//i;
  if (!schemes.test(text)) return false;
  // a socket's URL has credentials and no host, which only Postgres clients understand
  return URL.canParse(text.replace('@/', '@localhost/'));
}

function readNumber(value: unknown, option: NumberOption, findings: Findings): number {
  if (value === undefined) return option.default;
  const isFine =
    typeof value === 'number' && Number.isSafeInteger(value) && value >= option.min && value <= option.max;
  if (isFine) return value;
  const given = typeof value === 'number' ? String(value) : kindOf(value);
  findings.add(
    option.path,
    `is ${given}`,
    `Give a whole number from ${option.min} to ${option.max}, or leave it out for ${option.default}.`,
  );
  return option.default;
}

/** Redis Cluster keeps keys together whose names have the same text in braces; BullMQ forbids a colon. */
function readPrefix(value: unknown, findings: Findings): string | null {
  if (value === undefined) return null;
  if (typeof value === 'string' && /^\{[\w.-]{1,60}\}$/.test(value)) return value;
  findings.add(
    'queue.prefix',
    'is not a prefix in braces',
    "Write it as in '{emend-orders}', or leave it out.",
  );
  return null;
}
