import { anyOrderSql } from '../contestants/statement-timeline.ts';
import { priceStream } from '../data/price-stream.ts';
import { paymentStream, restatedRows } from '../data/stream.ts';
import type { Comparison } from '../harness/comparison.ts';
import { measure } from '../harness/measure.ts';
import { emendPipeline } from '../pipelines/emend.ts';
import { statementOverLog } from '../pipelines/statement-over-log.ts';

const timeline = 'emend, timeline';
const facts = 'emend, facts';
const limit = 'one statement a thousand rows over a log in the store, any order';

const mergePrices = anyOrderSql(`
  select l.product_id, daterange(l.valid_from, l.valid_to) as period, l.price, l.id as _version
  from public.log l
  where l.id between $1 and $2`);

export const timelines: Comparison = {
  name: 'timelines',
  title:
    'Timelines end to end: 100,000 keys with 10 pieces each, periods of 1 to 10 days in 90; facts: each row restates one of 1,000,000',
  measure: (servers, { quick, keys }) => {
    const prices = priceStream(keys);
    const rows = quick ? 500 : 100_000;
    return measure(servers, {
      warmUp: quick ? 0 : 1,
      rounds: quick ? 1 : 5,
      contestants: [
        emendPipeline(timeline, prices),
        emendPipeline(facts, paymentStream('restated', quick ? 1_000 : restatedRows)),
        statementOverLog(limit, prices, {
          sql: mergePrices,
          batchRows: 1_000,
          columnsDdl: 'add column _version bigint not null default 0',
        }),
      ],
      work: (round) => ({
        first: round * rows + 1,
        last: (round + 1) * rows,
        perTransaction: quick ? 50 : 1_000,
      }),
    });
  },
  ratios: [
    { of: timeline, to: facts, atMost: 4 },
    // of one connection, and without a pipeline; `limits` binds the merge alone
    { of: timeline, to: limit },
  ],
};
