import { beforeAll, describe, expect, it } from 'vitest';
import { facts, timeline } from '../../src/config/define-config.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

/** Two texts of one key, and one of another. */
interface KeyType {
  readonly name: string;
  readonly type: string;
  readonly one: string;
  readonly same: string;
  readonly other: string;
}

const keyTypes: readonly KeyType[] = [
  { name: 'numeric_key', type: 'numeric', one: '1.0', same: '1.00', other: '1.000001' },
  {
    name: 'instant_key',
    type: 'timestamptz',
    one: '2026-09-10 12:00:00.123456+02',
    same: '2026-09-10 15:45:00.123456+05:45',
    other: '2026-09-10 12:00:00.123457+02',
  },
  { name: 'char_key', type: 'char(5)', one: 'ab', same: 'ab   ', other: ' ab' },
  {
    name: 'uuid_key',
    type: 'uuid',
    one: 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
    same: '{A0EEBC999C0B4EF8BB6D6BB9BD380A11}',
    other: 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12',
  },
  { name: 'enum_key', type: 'public.mood', one: "it's ok", same: "it's ok", other: 'sad' },
  { name: 'spot_key', type: 'public.spot', one: '(Hall,1.0)', same: '(Hall,1.00)', other: '(hall,1)' },
  { name: 'float_key', type: 'float8', one: '0', same: '-0', other: '5e-324' },
  { name: 'citext_key', type: 'public.citext', one: 'Straße', same: 'STRAße', other: 'Strasse' },
  { name: 'array_key', type: 'numeric[]', one: '{1.0,NULL}', same: '{1.00,NULL}', other: '{NULL,1}' },
  { name: 'cidr_key', type: 'cidr', one: '10.0.0.0/8', same: '10/8', other: '10.0.0.0/9' },
];

describe('keys of a type with several texts for one value', () => {
  let install: Install;
  beforeAll(async () => {
    install = await createInstall('key types', {
      ddl: `
        create extension citext schema public;
        create type public.mood as enum ('it''s ok', 'sad');
        create type public.spot as (name text, level numeric);
        ${keyTypes
          .map(
            ({ name, type }) => `
              create table public.${name} (k ${type} not null, v text);
              create table public.${name}_held (k ${type} not null, valid_from date not null, valid_to date not null, v text);`,
          )
          .join('')}`,
      targets: Object.fromEntries(
        keyTypes.flatMap(({ name }) => [
          [name, facts(`public.${name}`, { key: ['k'] })],
          [
            `${name}_held`,
            timeline(`public.${name}_held`, { key: ['k'], period: ['valid_from', 'valid_to'] }),
          ],
        ]),
      ),
    });
    await install.start();
    await writeAll('one', 'first', '2026-01-01', '2026-04-01');
    await writeAll('same', 'second', '2026-02-01', '2026-03-01');
    await writeAll('other', 'other', '2026-01-01', '2026-04-01');
  });

  /** Merged before it returns, so that the next one meets what stands. */
  async function writeAll(key: 'one' | 'same' | 'other', v: string, from: string, to: string): Promise<void> {
    for (const keyType of keyTypes) {
      const k = `$1::text::${keyType.type}`;
      const text = keyType[key];
      await install.source.query(`insert into corrections.${keyType.name} (k, v) values (${k}, $2)`, [
        text,
        v,
      ]);
      await install.source.query(
        `insert into corrections.${keyType.name}_held (k, v, valid_from, valid_to) values (${k}, $2, $3, $4)`,
        [text, v, from, to],
      );
    }
    await install.wait();
  }

  it.each(keyTypes)(
    '$type: a fact is corrected under any text of its key',
    async ({ name, type, same, other }) => {
      const { rows } = await install.store.query(
        `select k::text as k, v from public.${name} order by v desc`,
      );
      const text = async (of: string) =>
        (await install.store.query(`select $1::text::${type}::text as k`, [of])).rows[0].k;
      expect(rows).toEqual([
        { k: await text(same), v: 'second' },
        { k: await text(other), v: 'other' },
      ]);
      const history = await install.store.query(`select v from emend.${name}_history`);
      expect(history.rows).toEqual([{ v: 'first' }]);
    },
  );

  it.each(keyTypes)(
    '$type: a period is split under any text of its key',
    async ({ name, type, one, other }) => {
      const periods = async (k: string) =>
        (
          await install.store.query<{ v: string; valid_from: string; valid_to: string }>(
            `select v, valid_from, valid_to from public.${name}_held where k ${equals(type)} $1::text::${type} order by valid_from`,
            [k],
          )
        ).rows.map((row) => Object.values(row));
      expect(await periods(one)).toEqual([
        ['first', '2026-01-01', '2026-02-01'],
        ['second', '2026-02-01', '2026-03-01'],
        ['first', '2026-03-01', '2026-04-01'],
      ]);
      expect(await periods(other)).toEqual([['other', '2026-01-01', '2026-04-01']]);
    },
  );

  it.each(keyTypes)('$type: a retraction finds it under any text of its key', async ({ name, type, one }) => {
    await install.source.query(
      `insert into corrections.${name} (k, _op) values ($1::text::${type}, 'retract')`,
      [one],
    );
    await install.wait();
    const { rows } = await install.store.query(`select v from public.${name}`);
    expect(rows).toEqual([{ v: 'other' }]);
  });
});

/** The session has an empty search_path, where a bare = would take citext for text. */
function equals(type: string): string {
  return type === 'public.citext' ? 'operator(public.=)' : '=';
}
