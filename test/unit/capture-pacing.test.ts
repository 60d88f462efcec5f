import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { createPacing } from '../../src/capture/pacing.ts';

/** A real TLS connection: each write of the server arrives as a chunk of its own. */
async function tlsPair(): Promise<{ server: TLSSocket; client: TLSSocket }> {
  const psk = Buffer.alloc(16, 1);
  const ciphers = 'PSK-AES128-GCM-SHA256';
  const versions = { minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' } as const;
  const listener = createServer({ ciphers, ...versions, pskCallback: () => psk }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  const accepted = once(listener, 'secureConnection') as Promise<[TLSSocket]>;
  const client = connect({
    host: '127.0.0.1',
    port,
    ciphers,
    ...versions,
    pskCallback: () => ({ psk, identity: 'test' }),
    checkServerIdentity: () => undefined,
  });
  await once(client, 'secureConnect');
  const [server] = await accepted;
  for (const socket of [server, client]) socket.on('error', () => undefined);
  onTestFinished(() => {
    client.destroy();
    server.destroy();
    listener.close();
  });
  return { server, client };
}

/** Until so many bytes have been read; how many turns that took by then. */
function untilRead(client: TLSSocket, bytes: number, rowsWaitMs: number): Promise<number> {
  let turns = 0;
  const pacing = createPacing(client, () => {
    turns += 1;
    return rowsWaitMs;
  });
  let got = 0;
  return new Promise((resolve) => {
    client.on('data', (chunk: Buffer) => {
      got += chunk.length;
      if (got < bytes) return;
      pacing.stop();
      resolve(turns);
    });
  });
}

test('many small chunks do not cost a rest each', async () => {
  const { server, client } = await tlsPair();
  const count = 20_000;
  const read = untilRead(client, count * 100, 0);
  const start = performance.now();
  for (let i = 0; i < count; i += 1) server.write(Buffer.alloc(100));
  const turns = await read;
  expect(performance.now() - start).toBeLessThan(5_000); // a rest each: more than 20 s
  expect(turns).toBeLessThan(count / 10);
});

test('while rows wait for company, it is not woken for each transaction of a busy source', async () => {
  const { server, client } = await tlsPair();
  const count = 300;
  const read = untilRead(client, count * 100, 5);
  const start = performance.now();
  for (let i = 0; i < count; i += 1) {
    server.write(Buffer.alloc(100));
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const turns = await read;
  expect(turns).toBeLessThan((performance.now() - start) / 3);
});

test('nothing is read while it is held, also when a rest ends, and everything comes afterwards', async () => {
  const { server, client } = await tlsPair();
  let got = 0;
  const pacing = createPacing(client, () => 0);
  client.on('data', (chunk: Buffer) => {
    got += chunk.length;
    if (got === 100) pacing.hold(true);
  });
  server.write(Buffer.alloc(100));
  while (!pacing.isHeld) await new Promise((resolve) => setImmediate(resolve));
  for (let i = 0; i < 50; i += 1) {
    server.write(Buffer.alloc(100));
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  expect(got).toBe(100);
  const rest = new Promise<void>((resolve) => client.on('data', () => got === 5_100 && resolve()));
  pacing.hold(false);
  await rest;
});
