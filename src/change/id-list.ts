/**
 * Numbers of rows as a short text, in their order: `5000+99 3 -7` is 5000 to 5099, then 5102, then 5095. Each part is the
 * distance from the number before it, and how many follow it without a gap. One writer's rows are one part; those of several
 * who wrote at once take two or three characters each.
 */
export function packIds(ids: readonly string[]): string {
  const parts: string[] = [];
  let last = 0n;
  let gap: bigint | undefined;
  let following = 0;
  const close = (): void => {
    if (gap !== undefined) parts.push(following === 0 ? `${gap}` : `${gap}+${following}`);
  };
  for (const text of ids) {
    const id = BigInt(text);
    if (gap !== undefined && id === last + 1n) following += 1;
    else {
      close();
      gap = id - last;
      following = 0;
    }
    last = id;
  }
  close();
  return parts.join(' ');
}

/** @throws SyntaxError for a text that `packIds` did not write */
export function unpackIds(text: string): bigint[] {
  const ids: bigint[] = [];
  let last = 0n;
  for (const part of text === '' ? [] : text.split(' ')) {
    const [gap = '', following = '0'] = part.split('+');
    last += BigInt(gap);
    ids.push(last);
    for (let left = Number(following); left > 0; left -= 1) ids.push((last += 1n));
  }
  return ids;
}
