import { showProgress } from './print.ts';

/** How far a long piece of work is. */
export interface Advance {
  readonly done: number;
  /** Done by this run: what the rate is of. */
  readonly doneNow: number;
  /** 0 to 1, where the whole is known. */
  readonly share: number | null;
}

/** A bar with rate and time left, on stderr, where somebody looks on. */
export function createProgressBar(what: string, unit: string): { show(advance: Advance): void; end(): void } {
  const line = showProgress(what);
  const startedAt = performance.now();
  return {
    show: ({ done, doneNow, share }) => {
      const seconds = (performance.now() - startedAt) / 1_000;
      line.show(describeAdvance({ done, doneNow, share }, seconds, unit));
    },
    end: () => line.end(),
  };
}

const width = 24;

function describeAdvance({ done, doneNow, share }: Advance, seconds: number, unit: string): string {
  const rate = `${formatCount(done)} ${unit}, ${formatCount(Math.round(doneNow / Math.max(seconds, 0.001)))}/s`;
  if (share === null) return rate;
  const filled = Math.round(share * width);
  const bar = `[${'#'.repeat(filled)}${'.'.repeat(width - filled)}] ${Math.floor(share * 100)}%`;
  const left = share > 0 ? `, ${formatSeconds((seconds * (1 - share)) / share)} left` : '';
  return `${bar}  ${rate}${left}`;
}

function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}

function formatSeconds(seconds: number): string {
  const whole = Math.ceil(seconds);
  const [minutes, rest] = [Math.floor(whole / 60), whole % 60];
  return minutes >= 60
    ? `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}:${String(rest).padStart(2, '0')}`
    : `${minutes}:${String(rest).padStart(2, '0')}`;
}
