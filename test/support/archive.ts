import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Install } from './install.ts';

/** A folder that is removed after the test. */
export function createFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'emend-archive-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Every row of a log, whole, as text. */
export async function readLog({ source }: Pick<Install, 'source'>, target: string): Promise<string[]> {
  const { rows } = await source.query<{ row: string }>(
    `select l::text as row from corrections.${target} l order by l._id`,
  );
  return rows.map(({ row }) => row);
}
