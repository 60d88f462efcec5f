import type { DeadLetter } from '../pipeline/dead.ts';
import { formatTable } from './format-table.ts';

export function describeDeadLetters(letters: readonly DeadLetter[]): string {
  if (letters.length === 0) return 'No log row is set aside.';
  const header = ['_id', 'target', 'key', 'sqlstate', 'reason', 'attempts', 'set aside at', 'state'];
  const rows = letters.map((letter) => [
    letter._id,
    letter.target,
    Object.entries(letter.key)
      .map(([name, value]) => `${name}=${value}`)
      .join(' '),
    letter.sqlstate,
    letter.reason,
    String(letter.attempts),
    letter.set_aside_at,
    stateOf(letter),
  ]);
  return formatTable(header, rows);
}

function stateOf({ state, closed_at, closed_by, closed_reason }: DeadLetter): string {
  if (state === 'open') return state;
  const by = closed_by === null ? '' : ` by ${closed_by}`;
  return `${state}${by} ${closed_at}${closed_reason === null ? '' : `: ${closed_reason}`}`;
}
