import type { Story, Values } from './data.ts';

export function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** One line that moves on a terminal; a line for each step elsewhere. */
export function progress(done: number, all: number, text: string): void {
  const line = `  [${String(done).padStart(String(all).length)}/${all}] ${text}`;
  if (!process.stdout.isTTY) say(line);
  else process.stdout.write(`\r\u001b[2K${line}${done === all ? '\n' : ''}`);
}

export function printStory(story: Story, told: readonly { knownAt: string; answer: Values | null }[]): void {
  say(`\n${story.title} (${story.key.region}, ${story.key.currency})`);
  say(`  valid on    known at    answer`);
  for (const { knownAt, answer } of told) say(`  ${story.valid_at}  ${knownAt}  ${inWords(answer)}`);
}

function inWords(answer: Values | null): string {
  if (!answer) return 'nothing: the currency was not there';
  const until = answer.to_tz ? `, until midnight in ${answer.to_tz}` : '';
  return `${answer.tender === true ? 'legal tender' : 'known, not legal tender'}${until}`;
}
