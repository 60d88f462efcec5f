import type { Client } from 'pg';
import { expect, test } from 'vitest';
import { parseLsn } from '../../src/change/lsn.ts';
import { accepted, createSource, startReader, streaming } from '../support/capture-harness.ts';
import { createDatabases } from '../support/databases.ts';
import { eventually, holds } from '../support/eventually.ts';

const databases = await createDatabases('capture confirm');

test('a cut between two commits that touch in the WAL loses neither', async () => {
  const source = await createSource(databases.sourceUrl);
  const [a, b] = [await source.connect(), await source.connect()];
  let isArmed = false;
  let refuse: ((error: Error) => void) | undefined;
  const reader = startReader(source, {
    atomicRows: 1, // each row its own batch
    async beforeAccept() {
      if (isArmed) await new Promise<void>((_, reject) => (refuse = reject));
      isArmed = armNext;
    },
  });
  let armNext = false;
  await streaming(reader);

  const written: string[] = [];
  let touching = 0;
  for (let pair = 0; touching < 3; pair += 1) {
    expect(pair).toBeLessThan(50);
    armNext = true; // the first of the two is accepted, the second is not
    const ids = [await insertAndStay(a), await insertAndStay(b)];
    await Promise.all([a.query('commit'), b.query('commit')]);
    written.push(...ids);
    await eventually(() => expect(refuse).toBeDefined());
    const first = reader.batches.at(-1)!;
    // exactly its end where the two touch; where neighbours wrote in between, a keepalive may have moved it on
    await eventually(async () => {
      expect(parseLsn((await source.slotRow()).confirmed)).toBeGreaterThanOrEqual(first.endLsn);
    });

    const { pid } = await source.slotRow();
    await source.db.query('select pg_terminate_backend($1)', [pid]);
    isArmed = armNext = false;
    refuse!(new Error('cut'));
    refuse = undefined;
    await accepted(reader, ids);
    if (reader.batches.at(-1)!.endLsn - first.endLsn <= 64n) touching += 1;
  }
  expect(new Set(reader.ids())).toEqual(new Set(written));
  await Promise.all([a.end(), b.end()]);
});

async function insertAndStay(client: Client): Promise<string> {
  await client.query('begin');
  const { rows } = await client.query<{ _id: string }>(
    `insert into corrections.prices (product_id, valid_from, valid_to)
     values ('A', '-infinity', 'infinity')
     returning _id::text`,
  );
  return rows[0]!._id;
}

test('nothing is confirmed while durable() says no, and everything comes again', async () => {
  const source = await createSource(databases.storeUrl);
  let durable = false;
  const reader = startReader(source, { durable: async () => durable });
  await streaming(reader);
  const ids = await source.insert(5);
  await accepted(reader, ids);
  const { endLsn } = reader.batches[0]!;
  await holds(async () => expect(parseLsn((await source.slotRow()).confirmed)).toBeLessThan(endLsn), {
    forMs: 1_500,
  });
  const offeredBefore = reader.ids().length;
  expect(offeredBefore).toBeGreaterThan(5); // read again from the source
  durable = true;
  await eventually(async () => {
    const { confirmed } = await source.slotRow();
    expect(parseLsn(confirmed)).toBeGreaterThanOrEqual(reader.batches.at(-1)!.endLsn);
  });
});
