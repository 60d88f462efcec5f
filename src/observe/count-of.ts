/** A number with what it counts: `1 row`, `2 rows`, `0 batches`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
