import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { createBuiltCli } from '../faults/built-cli.ts';
import type { BuiltCli } from '../faults/built-cli.ts';

/**
 * A machine of its own, as far as a process on it can tell: a network in which only the three servers can be reached, under other
 * addresses than from here (root on Linux; else only other addresses), its own environment, folder, time zone and clock.
 */
export interface Host extends BuiltCli {
  /** What runs a command on it. */
  readonly through: readonly string[];
  readonly isNetworkApart: boolean;
}

export interface HostOptions {
  readonly configText: string;
  readonly urls: Readonly<Record<'SOURCE_URL' | 'STORE_URL' | 'REDIS_URL', string>>;
  readonly clockAheadMs: number;
  readonly env: Readonly<Record<string, string>>;
}

export async function createHost({ configText, urls, clockAheadMs, env }: HostOptions): Promise<Host> {
  const network = makeNetwork();
  const seen = await Promise.all(
    Object.entries(urls).map(async ([name, url]) => [name, await openWay(url, network.address)] as const),
  );
  const cli = createBuiltCli(configText, {
    ...Object.fromEntries(seen),
    ...env,
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(aheadBy(clockAheadMs))}`,
  });
  onTestFinished(() => cli.remove());
  return { ...cli, through: network.through, isNetworkApart: network.through.length > 0 };
}

function aheadBy(ms: number): string {
  return `const now = Date.now; Date.now = () => now() + ${ms};`;
}

interface Network {
  /** Of this machine, as seen from within. */
  readonly address: string;
  readonly through: readonly string[];
}

function makeNetwork(): Network {
  const id = randomBytes(3).toString('hex');
  const [name, outside, inside] = [`emend-${id}`, `em${id}o`, `em${id}i`];
  const ip = (command: string): void =>
    void execFileSync('ip', command.split(' '), { stdio: ['ignore', 'ignore', 'ignore'] });
  try {
    ip(`netns add ${name}`);
  } catch {
    return { address: '127.0.0.1', through: [] };
  }
  // what is inside of it, and its end out here, go with it
  onTestFinished(() => ip(`netns delete ${name}`));
  const [third, fourth] = [randomBytes(1)[0]!, (randomBytes(1)[0]! >> 2) << 2];
  const subnet = `10.213.${third}`;
  ip(`link add ${outside} type veth peer name ${inside} netns ${name}`);
  ip(`address add ${subnet}.${fourth + 1}/30 dev ${outside}`);
  ip(`link set ${outside} up`);
  ip(`-n ${name} address add ${subnet}.${fourth + 2}/30 dev ${inside}`);
  ip(`-n ${name} link set ${inside} up`);
  return { address: `${subnet}.${fourth + 1}`, through: ['ip', 'netns', 'exec', name] };
}

/** The server of this URL under an address of its own. */
async function openWay(url: string, address: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const way = createServer((client) => {
    const server = connect(Number(port), hostname);
    client.on('error', () => undefined).on('close', () => server.destroy());
    server.on('error', () => undefined).on('close', () => client.destroy());
    client.pipe(server).pipe(client);
  });
  await once(way.listen(0, address), 'listening');
  onTestFinished(() => void way.close());
  const seen = new URL(url);
  seen.hostname = address;
  seen.port = String((way.address() as AddressInfo).port);
  return seen.href;
}
