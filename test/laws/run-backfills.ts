import type { Pool } from 'pg';
import { carryOut } from '../../src/backfill/carry-out.ts';
import { requestsIn } from '../../src/backfill/request.ts';
import type { Request } from '../../src/backfill/request.ts';
import { verdictOf } from '../../src/db/sqlstate.ts';
import { isEmendError } from '../../src/errors.ts';
import { undoCorrection } from '../../src/merge/undo.ts';
import { compactWhole } from '../support/ledger.ts';
import { batchOf, logRows, noAbort } from '../support/store.ts';
import { kinds } from './backfill-programs.ts';
import type { BackfillProgram, Fate, Written } from './backfill-programs.ts';
import { axisOf, expectOutcome, nameOf, targetOf } from './expect-backfills.ts';
import type { BackfillLaws, BackfillState } from './expect-backfills.ts';
import { logRowOf } from './run-program.ts';

/** Every check that random rows may fail; that pieces never overlap is not among them. */
const accept = JSON.stringify(
  Object.fromEntries(
    ['contradictions', 'answers_lost_from_now_on', 'null_share:v', 'null_share:ver'].map((check) => [
      check,
      'random',
    ]),
  ),
);

/** Runs the program and holds everything that the store has then against the model. Returns what became of the backfills. */
export async function runBackfills(laws: BackfillLaws, program: BackfillProgram): Promise<BackfillState[]> {
  await empty(laws);
  const rowsOf = program.fates.map((_, backfill) =>
    program.corrections.filter((correction) => correction.backfill === backfill),
  );
  await openAndWrite(laws, program.corrections, rowsOf);
  for (const [place, round] of program.rounds.entries()) {
    for (const [backfill, fate] of program.fates.entries())
      if (rowsOf[backfill]!.length > 0)
        await ask(laws.source, nameOf(backfill), rowsOf[backfill]!, fate, place);
    const asked = await readRequests(laws.source);
    const merged = await readMerged(laws);
    await Promise.all([
      ...round.batches.map((ids) => insist(() => merge(laws, program, ids))),
      ...round.undone
        .filter((id) => merged.has(id))
        .map((id) => insist(() => undo(laws, program.corrections[id - 1]!))),
      compactWhole(laws.store.pool),
      ...laws.workers.map(async (work, worker) => {
        for (const drawn of asked.length === 0 ? [] : round.carriedOut[worker]!)
          await carryOut(work, asked[drawn % asked.length]!).catch(passIfTemporary);
      }),
    ]);
  }
  const asked = await readRequests(laws.source);
  for (const request of program.lastOrder === 'as asked' ? asked : asked.reverse())
    await carryOut(laws.workers[0]!, request);

  return expectOutcome(laws, program, rowsOf);
}

async function empty({ source, store }: BackfillLaws): Promise<void> {
  const own = kinds.flatMap((kind) => [
    `public.${kind}`,
    ...['history', 'shadow', 'tombstone', 'staged'].map((suffix) => `emend.${kind}_${suffix}`),
  ]);
  await store.pool.query(
    `truncate ${own.join(', ')}, emend.ledger_recent, emend.ledger_block, emend.merge, emend.dead_letter, emend.undone, emend.backfill,
       emend.backfill_request, emend.backfill_event, emend.backfill_check, emend.backfill_change, emend.fence, emend.fence_of`,
  );
  const logs = kinds.map((kind) => `corrections.${kind}`).join(', ');
  await source.query(`truncate ${logs}, corrections._request, corrections._backfill`);
}

/** The whole log is there from the beginning; what is early and late is when its rows come to the store. */
async function openAndWrite(
  laws: BackfillLaws,
  corrections: readonly Written[],
  rowsOf: readonly (readonly Written[])[],
): Promise<void> {
  for (const [backfill, rows] of rowsOf.entries()) {
    if (rows.length === 0) continue;
    const targets = [...new Set(rows.map(({ kind }) => kind))];
    await laws.source.query(`select corrections.open_backfill($1, $2, 'a law', 'v1')`, [
      nameOf(backfill),
      targets,
    ]);
  }
  for (const kind of kinds) {
    const ofKind = corrections.filter((correction) => correction.kind === kind);
    const { columns, values } = logRows(
      targetOf(laws, kind),
      ofKind.map((correction) => logRowOf(axisOf[kind], correction)),
    );
    const rows = ofKind.map(({ backfill }, place) => ({
      ...Object.fromEntries(columns.map((column, index) => [column, values[index]![place]])),
      _backfill: backfill === null ? null : nameOf(backfill),
    }));
    const names = [...columns, '_backfill'].join(', ');
    await laws.source.query(
      `insert into corrections.${kind} (${names}) select ${names} from json_populate_recordset(null::corrections.${kind}, $1)`,
      [JSON.stringify(rows)],
    );
  }
}

/** What the author asks for in this round, by the functions that everybody asks by. */
async function ask(
  source: Pool,
  name: string,
  rows: readonly Written[],
  fate: Fate,
  round: number,
): Promise<void> {
  if (fate.chunkRound === round) {
    for (const places of fate.chunks) {
      const ids = places.map((place) => rows[place % rows.length]!.id).sort((one, other) => one - other);
      const kind = rows[places[0] % rows.length]!.kind;
      await source.query(`select corrections.chunk_backfill($1, $2, $3, $4)`, [name, kind, ...ids]);
    }
  }
  if (fate.seal === round) await source.query(`select corrections.seal_backfill($1)`, [name]);
  if (fate.promote === round)
    await source.query(`select corrections.promote_backfill($1, 'a law', $2)`, [name, accept]);
  if (fate.revert === round) await source.query(`select corrections.revert_backfill($1, 'a law')`, [name]);
  if (fate.abandon === round) await source.query(`select corrections.abandon_backfill($1, 'a law')`, [name]);
}

async function readRequests(source: Pool): Promise<Request[]> {
  const { fields, rows } = await source.query<Record<string, string | null>>(
    `select * from corrections._request order by _id`,
  );
  const columns = fields.map(({ name }) => name);
  return requestsIn({
    target: '_request',
    columns,
    values: columns.map((column) => rows.map((row) => row[column] ?? null)),
  });
}

async function readMerged({ store }: BackfillLaws): Promise<Set<number>> {
  const { rows } = await store.pool.query<{ id: string }>(
    `select _id as id from emend.ledger where dismissed is null`,
  );
  return new Set(rows.map(({ id }) => Number(id)));
}

function merge(laws: BackfillLaws, { corrections }: BackfillProgram, ids: readonly number[]): Promise<void> {
  const ofBatch = ids.map((id) => corrections[id - 1]!);
  const parts = kinds
    .map((kind) => ({ kind, rows: ofBatch.filter((correction) => correction.kind === kind) }))
    .filter(({ rows }) => rows.length > 0)
    .map(({ kind, rows }) =>
      logRows(
        targetOf(laws, kind),
        rows.map((correction) => logRowOf(axisOf[kind], correction)),
      ),
    );
  return laws.store.handle(batchOf(...parts), noAbort);
}

async function undo(laws: BackfillLaws, { id, key, kind }: Written): Promise<void> {
  const target = targetOf(laws, kind);
  await undoCorrection(laws.store.pool, {
    target,
    id: String(id),
    key: [key],
    actor: 'tester',
    reason: 'taken back',
  });
}

/** As a queue would: tried again until it is done. */
async function insist(step: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await step();
    } catch (error) {
      passIfTemporary(error);
    }
  }
}

function passIfTemporary(error: unknown): void {
  const isTemporary = isEmendError(error) ? error.disposition === 'retry' : verdictOf(error) === 'retry';
  if (!isTemporary) throw error;
}
