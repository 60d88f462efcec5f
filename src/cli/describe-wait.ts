import { countOf } from '../observe/count-of.ts';
import type { Waited } from '../pipeline/wait.ts';

export function describeWait(waited: Waited): string {
  const { setAsideNow, waitedMs } = waited;
  const now =
    setAsideNow === 0
      ? ''
      : `; ${countOf(setAsideNow, 'row is', 'rows are')} set aside now: see emend dead list`;
  return `${describeAwaited(waited)}${now} (${waitedMs} ms)`;
}

function describeAwaited({ rows, setAside, setAsideNow }: Waited): string {
  if (rows === 0) return setAsideNow === 0 ? 'everything was in the store already' : 'nothing was on its way';
  const aside = setAside > 0 ? `, ${countOf(setAside, 'is', 'are')} set aside` : '';
  return `${countOf(rows - setAside, 'more row is', 'more rows are')} in the store${aside}`;
}
