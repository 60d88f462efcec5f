import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { withClient } from '../../src/db/transaction.ts';
import { mergeAsKnown } from '../../src/merge/merge-as-known.ts';
import { tick } from '../../src/store/clock.ts';
import { createDatabases } from '../support/databases.ts';
import { createSource } from '../support/source.ts';
import type { SourceUnderTest } from '../support/source.ts';
import { batchOf, createStore, logRows, noAbort } from '../support/store.ts';
import type { StoreUnderTest, TestRow } from '../support/store.ts';

type Scalar = string | number | null;
type Values = Readonly<Record<string, Scalar>>;

interface Correction {
  readonly op: string;
  readonly key: Values;
  readonly valid_from?: string;
  readonly valid_to?: string | null;
  readonly values: Values;
  readonly event_time?: string;
  readonly recorded_at?: string;
}

interface Arrival {
  readonly id: number;
  readonly version: number;
  readonly op?: string;
  readonly [value: string]: Scalar | undefined;
}

interface Cases {
  readonly asOfJoin: readonly {
    readonly id: string;
    readonly dimension: readonly Correction[];
    readonly facts: readonly {
      readonly id: string;
      readonly key: Values;
      readonly at: string;
      readonly known_at?: string;
    }[];
    readonly expected: Readonly<Record<string, Values | null>>;
  }[];
  readonly periodJoin: readonly {
    readonly id: string;
    readonly left: readonly Correction[];
    readonly right: readonly Correction[];
    readonly expected: readonly {
      readonly key: Values;
      readonly valid_from: string;
      readonly valid_to: string | null;
      readonly left: Values;
      readonly right: Values;
    }[];
  }[];
  readonly aggregateAsKnown: readonly {
    readonly id: string;
    readonly aggregate: string;
    readonly rows: readonly Correction[];
    readonly expected: readonly { readonly listing: number; readonly at: string; readonly avg: number }[];
  }[];
  readonly versionOrder: readonly {
    readonly id: string;
    readonly arrivals: readonly Arrival[];
    /** After each arrival, the number of the one that won. */
    readonly winnerAfter?: readonly number[];
    /** The keys that are there at the end. */
    readonly present?: readonly number[];
  }[];
  readonly rejectOrNoop: readonly { readonly id: string; readonly input: unknown }[];
}

const cases = JSON.parse(readFileSync(new URL('joins-and-refusals.json', import.meta.url), 'utf8')) as Cases;

/** Every case has tables of its own, named by its kind and place. */
function nameOf(kind: string, place: number): string {
  return `${kind}_${place}`;
}

const period = { from: 'valid_from', to: 'valid_to', mode: 'override' as const };

describe('cases of joins', () => {
  let store: StoreUnderTest;
  let lastId = 0;

  const timelines = [
    ...cases.asOfJoin.map(({ dimension }, place) => ({ name: nameOf('dimension', place), rows: dimension })),
    ...cases.periodJoin.flatMap(({ left, right }, place) => [
      { name: nameOf('left', place), rows: left },
      { name: nameOf('right', place), rows: right },
    ]),
  ];

  beforeAll(async () => {
    const valueNames = (rows: readonly { readonly values: Values }[]) => [
      ...new Set(rows.flatMap((row) => Object.keys(row.values))),
    ];
    store = await createStore(
      (await createDatabases('joins')).storeUrl,
      [
        ...timelines.map(
          ({ name, rows }) =>
            `create table public.${name} (k text not null, valid_from timestamptz not null, valid_to timestamptz not null,
             ${valueNames(rows)
               .map((value) => `${value} text`)
               .join(', ')})`,
        ),
        ...cases.aggregateAsKnown.map(
          (_, place) =>
            `create table public.${nameOf('rating', place)} (listing integer not null, row text not null, event_time timestamptz, rating numeric)`,
        ),
        ...cases.versionOrder.map(
          (_, place) =>
            `create table public.${nameOf('versioned', place)} (id integer not null, version integer not null, name text, price integer, age integer)`,
        ),
      ].join(';\n'),
      [
        ...timelines.map(({ name }) => ({ name, kind: 'timeline' as const, key: ['k'], period })),
        ...cases.aggregateAsKnown.map((_, place) => ({
          name: nameOf('rating', place),
          kind: 'facts' as const,
          key: ['listing', 'row'],
        })),
        ...cases.versionOrder.map((_, place) => ({
          name: nameOf('versioned', place),
          kind: 'facts' as const,
          key: ['id'],
          version: 'version',
        })),
      ],
    );
    await withClient(store.pool, tick);
  });
  afterAll(() => store?.pool.end());

  /** Versions are given by a row's place; rows that say when they were recorded become known then, in that order. */
  async function merge(name: string, corrections: readonly Correction[]): Promise<void> {
    const target = store.targets.find((each) => each.name === name)!;
    const ends = (row: Correction) => ({ valid_from: row.valid_from, valid_to: row.valid_to ?? 'infinity' });
    const rows = corrections.map((correction) => ({
      recordedAt: correction.recorded_at,
      row: {
        ...correction.key,
        ...correction.values,
        ...(target.kind === 'timeline' ? ends(correction) : {}),
        ...(correction.op === 'upsert' ? { event_time: correction.event_time } : {}),
        _id: ++lastId,
        _op: correction.op,
      } satisfies TestRow,
    }));
    const known = rows.filter(({ recordedAt }) => recordedAt !== undefined);
    for (const { row, recordedAt } of known.toSorted((one, other) =>
      one.recordedAt!.localeCompare(other.recordedAt!),
    ))
      await mergeAsKnown(store.pool, target, logRows(target, [row]), recordedAt!);
    for (const { row } of rows.filter(({ recordedAt }) => recordedAt === undefined))
      await store.handle(batchOf(logRows(target, [row])), noAbort);
    await withClient(store.pool, tick);
  }

  async function ask(sql: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    return (await store.pool.query<Record<string, unknown>>(sql, [...values])).rows;
  }

  it.each(cases.asOfJoin.map((example, place) => ({ ...example, place })))(
    'as-of join $id: each fact finds what held at its time, as it was known then',
    async ({ place, dimension, facts, expected }) => {
      const name = nameOf('dimension', place);
      await merge(name, dimension);
      expect(facts.map(({ id }) => id).sort()).toEqual(Object.keys(expected).sort());
      for (const { id, key, at, known_at } of facts) {
        const known = known_at === undefined ? '' : `, '${known_at}'`;
        const found = await ask(
          `select d.* from (values ($1::text, $2::timestamptz)) as fact (k, at)
           join lateral (select * from emend.${name}_at(fact.at${known}) d where d.k = fact.k) d on true`,
          [key.k, at],
        );
        expect(found, `fact ${id}`).toHaveLength(expected[id] === null ? 0 : 1);
        expect(found[0] ?? {}, `fact ${id}`).toMatchObject(asText(expected[id] ?? {}));
      }
    },
  );

  it.each(cases.periodJoin.map((example, place) => ({ ...example, place })))(
    'period join $id: both sides, for as long as both hold',
    async ({ place, left, right, expected }) => {
      const [one, other] = [nameOf('left', place), nameOf('right', place)];
      await merge(one, left);
      await merge(other, right);
      const found = await ask(
        `select l.k, lower(shared) as valid_from, upper(shared) as valid_to,
           to_jsonb(l) - '{k,valid_from,valid_to}'::text[] as left, to_jsonb(r) - '{k,valid_from,valid_to}'::text[] as right
         from emend.${one}_periods l
         join emend.${other}_periods r on r.k = l.k
         cross join lateral (
           select tstzrange(l.valid_from, l.valid_to) * tstzrange(r.valid_from, r.valid_to) as shared
         ) as meeting
         where not isempty(shared)
         order by l.k, 2`,
      );
      expect(
        found.map((row) => ({
          ...row,
          left: JSON.parse(row.left as string) as unknown,
          right: JSON.parse(row.right as string) as unknown,
        })),
      ).toEqual(
        expected.map((row) => ({
          k: String(row.key.k),
          valid_from: instant(row.valid_from),
          valid_to: row.valid_to === null ? 'infinity' : instant(row.valid_to),
          left: asText(row.left),
          right: asText(row.right),
        })),
      );
    },
  );

  it.each(cases.aggregateAsKnown.map((example, place) => ({ ...example, place })))(
    'aggregate $id: over what was known then',
    async ({ place, rows, aggregate, expected }) => {
      const name = nameOf('rating', place);
      await merge(name, rows);
      for (const { listing, at, avg } of expected) {
        const happened = aggregate.includes('event_time <=') ? 'and event_time <= $2' : '';
        const found = await ask(
          `select avg(rating)::float8 as avg from emend.${name}_as_of($2) where listing = $1 ${happened}`,
          [listing, at],
        );
        expect(Number(found[0]!.avg), `listing ${listing} at ${at}`).toBe(avg);
      }
    },
  );

  it.each(cases.versionOrder.map((example, place) => ({ ...example, place })))(
    'version order $id: the greater version wins, and of equal ones the later',
    async ({ place, arrivals, winnerAfter, present }) => {
      const name = nameOf('versioned', place);
      for (const [index, { op, ...row }] of arrivals.entries()) {
        await merge(name, [
          op === 'delete'
            ? { op: 'retract', key: { id: row.id, version: row.version }, values: {} }
            : { op: 'upsert', key: { id: row.id }, values: row as Values },
        ]);
        const winner = winnerAfter?.[index];
        if (winner === undefined) continue;
        const { op: _, ...expected } = arrivals[winner - 1]!;
        expect(await ask(`select * from public.${name}`), `after arrival ${index + 1}`).toMatchObject([
          asText(expected as Values),
        ]);
      }
      expect(winnerAfter ?? present).toBeDefined();
      if (!present) return;
      const ids = await ask(`select id from public.${name} order by id`);
      expect(ids).toEqual(present.map((id) => ({ id: String(id) })));
    },
  );
});

/**
 * How each kind of bad input is refused. A start is never defaulted, so `(defaulted to now)` is a start that is left out; and
 * bounds are values by the types of their columns, so that a window of expressions has no way in.
 */
const refusals: Readonly<
  Record<string, { columns: string; values: string; refused: Record<string, unknown> }>
> = {
  'equal-bounds': {
    columns: 'k, valid_from, valid_to',
    values: `3, '2018-04-01T00:00:00Z', '2018-04-01T00:00:00Z'`,
    refused: { code: '23514', constraint: 'valid_from must be before valid_to' },
  },
  'reversed-bounds': {
    columns: 'k, valid_from, valid_to',
    values: `3, '2018-06-01T00:00:00Z', '2018-01-01T00:00:00Z'`,
    refused: { code: '23514', constraint: 'valid_from must be before valid_to' },
  },
  'null-key': {
    columns: 'k, valid_from, valid_to',
    values: `null, '2018-01-01T00:00:00Z', '2018-01-05T00:00:00Z'`,
    refused: { code: '23502', column: 'k' },
  },
  'null-period': {
    columns: 'k, valid_from, valid_to',
    values: `3, null, null`,
    refused: { code: '23502', column: 'valid_from' },
  },
  'valid-to-before-default-from': {
    columns: 'k, valid_to',
    values: `1, '2011-01-01T00:00:00Z'`,
    refused: { code: '23502', column: 'valid_from' },
  },
  'non-constant-window': {
    columns: 'k, valid_from, valid_to',
    values: `3, 's', 'e'`,
    refused: { code: '22007' },
  },
};

describe('cases of bad input', () => {
  let source: SourceUnderTest;
  beforeAll(async () => {
    source = await createSource(
      await createDatabases('refusals'),
      `create table public.x (k integer not null, valid_from timestamptz not null, valid_to timestamptz not null, v text)`,
      [{ name: 'x', kind: 'timeline', key: ['k'], period }],
    );
  });
  afterAll(() => Promise.all([source?.source.end(), source?.store.end()]));

  it('are all here', () => {
    expect(Object.keys(refusals)).toEqual(cases.rejectOrNoop.map(({ id }) => id));
  });

  it.each(cases.rejectOrNoop)('$id is refused by the log, with its reason', async ({ id }) => {
    const { columns, values, refused } = refusals[id]!;
    for (const op of ['upsert', 'retract']) {
      const insert = source.source.query(
        `insert into corrections.x (${columns}, _op) values (${values}, '${op}')`,
      );
      await expect(insert, `as ${op}`).rejects.toMatchObject(refused);
    }
    const { rows } = await source.source.query('select from corrections.x');
    expect(rows).toEqual([]);
  });
});

function asText(values: Values): Record<string, string | null> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, value === null ? null : String(value)]),
  );
}

/** As Postgres writes it. */
function instant(iso: string): string {
  return iso.replace('T', ' ').replace('Z', '+00');
}
