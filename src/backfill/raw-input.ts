import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { withExamples } from './findings.ts';
import type { Finding } from './findings.ts';
import type { Backfill } from './state.ts';

/** A file of the raw input, as it was when the backfill was opened. */
export interface RawInput {
  /** As its author named it. */
  readonly file: string;
  /** SHA-256 of its bytes, in hex; null: it could not be read. */
  readonly checksum: string | null;
}

/** Reads each file once: what can be read, and is known by its checksum, can be replayed. */
export async function lookAtRawInput(folder: string, files: readonly string[]): Promise<RawInput[]> {
  const looked: RawInput[] = [];
  for (const file of files) looked.push({ file, checksum: await checksumOf(resolve(folder, file)) });
  return looked;
}

async function checksumOf(path: string): Promise<string | null> {
  const hash = createHash('sha256');
  try {
    for await (const bytes of createReadStream(path)) hash.update(bytes as Buffer);
    return hash.digest('hex');
  } catch {
    return null;
  }
}

/** What `origin` of a backfill says of its raw input; empty where it says nothing. */
export function rawInputOf(origin: unknown): readonly RawInput[] {
  const stated = (origin as { raw_input?: unknown } | null)?.raw_input;
  return Array.isArray(stated) ? (stated as RawInput[]) : [];
}

/** Whether the rows could be made again. Workers cannot look: the author's side has, and wrote it down. */
export function checkRawInput({ targets, origin }: Backfill): Finding {
  const files = rawInputOf(origin);
  const gone = files.filter(({ checksum }) => checksum === null);
  const base = { target: targets.join(', '), name: 'raw_input' };
  if (files.length === 0) return { ...base, figure: 'not stated', threshold: 'none', verdict: 'note' };
  const finding: Finding = {
    ...base,
    figure: `${files.length - gone.length} of ${files.length} files can be read`,
    threshold: 'all of them',
    verdict: gone.length === 0 ? 'pass' : 'fail',
    details: { files },
  };
  return withExamples(
    finding,
    gone.map(({ file }) => `${file} could not be read when the backfill was opened`),
  );
}
