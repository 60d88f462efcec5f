import { createReadStream } from 'node:fs';
import { Transform } from 'node:stream';
import type { Readable, TransformCallback } from 'node:stream';
import { createGunzip } from 'node:zlib';

/** What a file that is no text is refused with; the reader adds where. */
export class NoText extends Error {
  readonly remedy: string;

  constructor(message: string, remedy: string) {
    super(message);
    this.remedy = remedy;
  }
}

/** How far the bytes of a file have been read. */
export type ByteStream = Readable & { readonly bytesRead?: number };

/**
 * The text of a file, or of stdin for `-`; `.gz` is unpacked. Other bytes than UTF-8 end it with `NoText`: none becomes a
 * question mark (law 9).
 */
export function openText({
  path,
  onOpen,
}: {
  readonly path: string;
  readonly onOpen?: ((file: ByteStream) => void) | undefined;
}): Readable {
  const isPacked = path.endsWith('.gz');
  const file: ByteStream = path === '-' ? process.stdin : createReadStream(path);
  onOpen?.(file);
  const text = decoder();
  // pipe does not pass errors on
  file.on('error', (error) => text.destroy(error));
  if (!isPacked) return file.pipe(text);
  const unpacked = createGunzip();
  unpacked.on('error', ({ message }) => text.destroy(notPacked(message)));
  return file.pipe(unpacked).pipe(text);
}

function decoder(): Transform {
  const utf8 = new TextDecoder('utf-8', { fatal: true });
  const decode = (bytes: Buffer | undefined, done: TransformCallback): void => {
    try {
      const text = bytes === undefined ? utf8.decode() : utf8.decode(bytes, { stream: true });
      if (text.includes('\0')) throw new TypeError('it holds a zero byte');
      done(null, text === '' ? undefined : text);
    } catch {
      done(noText());
    }
  };
  return new Transform({
    readableObjectMode: false,
    encoding: 'utf8',
    transform: (bytes: Buffer, _encoding, done) => decode(bytes, done),
    flush: (done) => decode(undefined, done),
  });
}

function noText(): NoText {
  return new NoText(
    'it is not text in UTF-8',
    'Give NDJSON or CSV in UTF-8 (a packed file has .gz at the end of its name; a spreadsheet is exported as CSV UTF-8).',
  );
}

function notPacked(message: string): NoText {
  return new NoText(
    `it cannot be unpacked (${message})`,
    'A file whose name ends in .gz is packed with gzip; name it *.ndjson or *.csv if it is not.',
  );
}
