import { beforeAll, describe, expect, it } from 'vitest';
import { defineConfig, facts, timeline } from '../../src/config/define-config.ts';
import { explain } from '../../src/pipeline/explain.ts';
import { undo } from '../../src/pipeline/undo.ts';
import { verify } from '../../src/pipeline/verify.ts';
import { eventually } from '../support/eventually.ts';
import { createInstall } from '../support/install.ts';
import type { Install } from '../support/install.ts';

/** Names that emend's own SQL uses, or might: none of them is taken from the user. */
const names = [
  'a', 'answer', 'arrived', 'asked', 'at', 'b', 'backfill', 'before', 'believed', 'believed_from', 'believed_to', 'c', 'columns', 'covers', 'd', 'during', 'e', 'f', 'first', 'first_known', 'first_start',
  'found', 'fresh', 'g', 'higher', 'holds_until', 'id', 'is_second', 'k', 'key', 'kind', 'known_at', 'known_from', 'known_to',
  'l', 'last', 'last_start', 'm', 'n', 'name', 'new', 'newest_first', 'o', 'old', 'op', 'p', 'part', 'part_from', 'part_to',
  'pieces', 'place', 'r', 'reach', 's', 'since', 'standing', 'state', 'stated', 'superseded', 't', 'target', 'text', 'told', 'told_at',
  'u', 'undone_reason', 'until', 'v', 'valid_at', 'value', 'values', 'vals', 'version', 'w', 'weighed', 'winning_op', 'won', 'x', 'xid', 'select', 'user',
]; // prettier-ignore

const quoted = names.map((name) => `"${name}"`);
const values = quoted.map((name) => `${name} text`).join(', ');
const { targets } = defineConfig({
  targets: {
    things: facts('public.things', { key: ['row', 'when'] }),
    spans: timeline('public.spans', { key: ['row', 'when'], period: ['from', 'to'] }),
    starts: timeline('public.starts', { key: ['row', 'when'], period: ['from'] }),
  },
});

describe.each(['things', 'spans', 'starts'])(
  'columns of %s that are called as emend calls its own',
  (target) => {
    let install: Install;
    beforeAll(async () => {
      install = await createInstall(`column names ${target}`, {
        ddl: `
        create table public.things ("row" text not null, "when" text not null, ${values});
        create table public.spans ("row" text not null, "when" text not null, "from" date not null, "to" date not null, ${values});
        create table public.starts ("row" text not null, "when" text not null, "from" date not null, "to" date not null, ${values})`,
        targets,
      });
      await install.start();
    });

    const period = { things: [], spans: ['from', 'to'], starts: ['from'] }[target]!;
    async function write(op: string, text: string, from: string, to: string, backfill: string | null = null) {
      const columns = ['row', 'when', ...period].map((name) => `"${name}"`);
      const given = ['A', 'B', ...period.map((name) => (name === 'from' ? from : to))];
      const stated = op === 'upsert' ? quoted : [];
      const { rows } = await install.source.query<{ _id: string }>(
        `insert into corrections.${target} (${[...columns, ...stated].join(', ')}, _op, _backfill)
       values (${[...given, ...stated.map(() => text)].map((value) => `'${value}'`).join(', ')}, '${op}', ${backfill ? `'${backfill}'` : 'null'})
       returning _id`,
      );
      return rows[0]!._id;
    }
    const answers = async () =>
      (
        await install.store.query<{ won: string; k: string }>(
          `select won, k from public.${target} order by _version, won`,
        )
      ).rows.map(({ won, k }) => `${won}${k}`);

    it('are merged, folded again, explained, verified, promoted and reverted', async () => {
      await write('upsert', 'one', '2026-01-01', '2026-12-31');
      await install.wait();
      const second = await write('upsert', 'two', '2026-03-01', '2026-04-01');
      await install.wait();
      await write('retract', '', '2026-06-01', '2026-07-01');
      await install.wait();
      await undo({ config: install.config, target, id: second, reason: 'a test' });
      const live = await answers();

      await install.source.query(`select corrections.open_backfill('b', array['${target}'], 'a test', 'v1')`);
      await write('upsert', 'three', '2026-05-01', '2026-08-01', 'b');
      await install.source.query(`select corrections.seal_backfill('b'), corrections.promote_backfill('b')`);
      const reaches = (state: string) =>
        eventually(async () =>
          expect((await install.store.query(`select state, problem from emend.backfill`)).rows).toMatchObject(
            [{ state }],
          ),
        );
      await reaches('promoted');
      expect(await answers()).toContain('threethree');
      const { corrections } = await explain(install.config, { target, key: ['row=A', 'when=B'] });
      expect(corrections.find(({ _id }) => _id === second)).toMatchObject({
        state: 'undone',
        columns: Object.fromEntries(names.map((name) => [name, 'two'])),
        undone_reason: 'a test',
      });
      await install.source.query(`select corrections.revert_backfill('b', 'a test')`);
      await reaches('reverted');
      expect(await answers()).toEqual(live);
      expect(await verify(install.config, { target })).toMatchObject([{ differences: [], gaps: [] }]);
    });
  },
);
