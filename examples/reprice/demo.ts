/** The demo of backfills: a month is re-priced, wrongly, taken back, and re-priced rightly; every answer is verified. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startServices } from 'emend/dev';
import { createDemoDatabases } from '../currency/databases.ts';
import { Mismatch, playReprice } from './reprice.ts';

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

function table(header: readonly string[], rows: readonly (readonly string[])[]): void {
  const lines = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)));
  for (const line of lines)
    say(`  ${line.map((cell, column) => cell.padEnd(widths[column]!)).join('  ')}`.trimEnd());
}

const started = performance.now();
const folder = mkdtempSync(join(tmpdir(), 'emend-reprice-'));
const services = await startServices({ dir: folder, redis: 'if-present' });
for (const note of services.notes) say(note);
try {
  const databases = await createDemoDatabases(services);
  try {
    await playReprice({ ...databases, redisUrl: services.redisUrl }, 1_000, { say, table });
    say(`\nEverything is as it has to be (${((performance.now() - started) / 1_000).toFixed(1)} s).`);
  } finally {
    await databases.drop();
  }
} catch (error) {
  process.exitCode = 1;
  say(error instanceof Mismatch ? `\nDifferent from the model: ${error.message}` : describe(error));
} finally {
  await services.stop();
  rmSync(folder, { recursive: true, force: true });
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return [error.message, (error as { remedy?: string }).remedy ?? error.stack ?? ''].join('\n');
}
