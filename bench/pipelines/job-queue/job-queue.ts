import { runMigrations } from 'graphile-worker';
import { fileURLToPath } from 'node:url';
import type { Stream, Writing } from '../../data/stream.ts';
import type { Contestant } from '../../harness/contestant.ts';
import { openEmendInstall } from '../emend-install.ts';
import { startProgram } from '../program.ts';
import { programmed } from '../programmed.ts';
import { createWriter } from '../writer.ts';

const files = ['../run-program.mjs', './program.ts'].map((file) =>
  fileURLToPath(new URL(file, import.meta.url)),
);

/**
 * A queue in the source database (graphile-worker): whoever writes a transaction adds its job in it, and the worker reads the rows
 * of the job from the log and merges them as emend does, with ledger and history. There is no stream.
 */
export function jobQueue(name: string, stream: Stream): Contestant<Writing> {
  const log = `corrections.${stream.target}`;
  return programmed(name, {
    stream,
    between: 'is ended',
    build: async (servers) => {
      // the tables of emend, and none of its processes
      const { source, store, close } = await openEmendInstall(servers, stream);
      await runMigrations({ connectionString: source.url });
      const write = await createWriter(
        source.pool,
        stream,
        (rowsSql) => `
          with written as (insert into ${log} (${stream.columns.join(', ')}) ${rowsSql} returning _id)
          select graphile_worker.add_job('merge', json_build_object('first', min(_id), 'last', max(_id)))
          from written into job`,
        'job record;',
      );
      return {
        source: source.pool,
        store: store.pool,
        write,
        start: () =>
          startProgram([process.execPath, ...files] as [string, ...string[]], {
            SOURCE_URL: source.url,
            STORE_URL: store.url,
            TARGET: stream.target,
          }),
        close,
      };
    },
  });
}
