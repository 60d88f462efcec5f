import { kindOf } from './findings.ts';
import type { Findings } from './findings.ts';

/** A stretch of wall-clock time in which a promote may begin, or may not; it comes back on each of its days. */
export interface PromoteSpan {
  /** Null: of all targets. */
  readonly target: string | null;
  readonly isBlackout: boolean;
  /** IANA. */
  readonly timeZone: string;
  /** Days on which it begins, 1 is Monday; null: each. */
  readonly days: readonly number[] | null;
  /** The dates among which these days are, as text of a datemultirange; null: all. */
  readonly dates: string | null;
  /** Dates on which it does not begin, likewise. */
  readonly except: string;
  /** `HH:MM`. An end that is not later than the start is on the next day. */
  readonly from: string;
  readonly to: string;
}

const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];
const example = "promote: { timeZone: 'Europe/Vienna', windows: [{ from: '22:00', to: '05:00' }] }";

/** Reads `promote` of the whole and of each target. A time that can never come is refused, as far as the week alone can tell. */
export function checkPromoteTimes(root: Record<string, unknown>, findings: Findings): PromoteSpan[] {
  const ofAll = readTimes(root['promote'], null, undefined, findings);
  const zone = asRecord(root['promote'])['timeZone'];
  const spans = Object.entries(asRecord(root['targets'])).flatMap(([name, target]) =>
    readTimes(asRecord(target)['promote'], name, zone, findings),
  );
  if (findings.problems.length === 0) refuseNever([...ofAll, ...spans], findings);
  return [...ofAll, ...spans];
}

/** Where a span is stated. */
export function pathOf(target: string | null): string {
  return target === null ? 'promote' : `targets.${target}.promote`;
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function readTimes(
  value: unknown,
  target: string | null,
  zoneOfAll: unknown,
  findings: Findings,
): PromoteSpan[] {
  if (value === undefined) return [];
  const path = pathOf(target);
  const times = findings.object(value, path, `Write: ${example}`);
  if (!times) return [];
  findings.unknownKeys(times, ['timeZone', 'windows', 'blackouts'], path);
  const timeZone = readZone(times['timeZone'] ?? zoneOfAll, `${path}.timeZone`, findings);
  const read = (list: 'windows' | 'blackouts'): PromoteSpan[] =>
    readSpans(times[list], `${path}.${list}`, findings).map((span) => ({
      target,
      isBlackout: list === 'blackouts',
      timeZone,
      ...span,
    }));
  return [...read('windows'), ...read('blackouts')];
}

/** Named, so that nobody has to guess whose 06:00 it is. An offset is refused: it is right for half of the year. */
function readZone(value: unknown, path: string, findings: Findings): string {
  if (typeof value === 'string' && /^[A-Za-z][\w+/-]*$/.test(value) && isZone(value)) return value;
  findings.add(
    path,
    typeof value === 'string' ? `'${value}' is no time zone` : `is ${kindOf(value)}`,
    "Name the zone that the times are meant in: 'UTC', or as in 'Europe/Vienna'.",
  );
  return 'UTC';
}

function isZone(name: string): boolean {
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: name }));
  } catch {
    return false;
  }
}

type StatedSpan = Omit<PromoteSpan, 'target' | 'isBlackout' | 'timeZone'>;

function readSpans(value: unknown, path: string, findings: Findings): StatedSpan[] {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.length > 0)
    return value.map((each, place) => readSpan(each, `${path}[${place}]`, findings));
  findings.add(path, `is ${kindOf(value)}`, `Write a list as in ${example}, or leave it out.`);
  return [];
}

function readSpan(value: unknown, path: string, findings: Findings): StatedSpan {
  const span =
    findings.object(value, path, "Write: { days: ['sat', 'sun'], from: '22:00', to: '05:00' }") ?? {};
  findings.unknownKeys(span, ['days', 'dates', 'except', 'from', 'to'], path);
  const before = findings.problems.length;
  const from = readTime(span['from'] ?? '00:00', `${path}.from`, findings);
  const to = readTime(span['to'] ?? '24:00', `${path}.to`, findings);
  if (from === to && findings.problems.length === before)
    findings.add(path, 'ends when it begins', 'Leave both out for the whole day; else give two times.');
  return {
    days: readDays(span['days'], `${path}.days`, findings),
    dates: span['dates'] === undefined ? null : readDates(span['dates'], `${path}.dates`, findings),
    except: span['except'] === undefined ? '{}' : readDates(span['except'], `${path}.except`, findings),
    from,
    to,
  };
}

function readTime(value: unknown, path: string, findings: Findings): string {
  if (typeof value === 'string' && /^(([01]\d|2[0-3]):[0-5]\d|24:00)$/.test(value)) return value;
  findings.add(
    path,
    typeof value === 'string' ? `'${value}' is no time of day` : `is ${kindOf(value)}, not a time of day`,
    "Write it as a text, as in '22:00', from '00:00' to '24:00'.",
  );
  return '00:00';
}

function readDays(value: unknown, path: string, findings: Findings): number[] | null {
  if (value === undefined) return null;
  const days = findings.names(value, path, "days: ['mon', 'tue']");
  const unknown = days.find((day) => !weekdays.includes(day));
  if (unknown !== undefined || (Array.isArray(value) && value.length === 0))
    findings.add(path, 'names no day of the week', `Name some of: ${weekdays.join(', ')}.`);
  return days.map((day) => weekdays.indexOf(day) + 1);
}

/** `2026-12-24`, or `2026-12-24/2027-01-06`, both included. */
function readDates(value: unknown, path: string, findings: Findings): string {
  const ranges = findings.names(value, path, "dates: ['2026-12-24', '2026-12-31/2027-01-06']").map((text) => {
    const [first = '', last = first, more] = text.split('/');
    const isFine = more === undefined && isDate(first) && isDate(last) && first <= last;
    if (!isFine)
      findings.add(
        path,
        `'${text}' is no date`,
        "Write '2026-12-24', or '2026-12-24/2027-01-06', both included.",
      );
    return `[${first},${last}]`;
  });
  return `{${ranges.join(',')}}`;
}

function isDate(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

const minutesOfDay = 24 * 60;

/**
 * Windows that blackouts leave nothing of, week after week. What has dates is passed over, and so are targets of another zone:
 * of them the store's clock tells, when a promote is asked for.
 */
function refuseNever(spans: readonly PromoteSpan[], findings: Findings): void {
  for (const target of new Set(spans.map((span) => span.target))) {
    const held = spans.filter((span) => span.target === null || span.target === target);
    const [first] = held;
    if (held.some(({ timeZone }) => timeZone !== first!.timeZone)) continue;
    const isOpen = new Array<boolean>(7 * minutesOfDay).fill(true);
    for (const of of new Set(held.map((span) => span.target))) {
      const windows = held.filter((span) => span.target === of && !span.isBlackout);
      if (windows.length === 0 || windows.some(({ dates }) => dates !== null)) continue;
      const within = new Set(windows.flatMap(minutesOf));
      isOpen.forEach((_open, minute) => (isOpen[minute] &&= within.has(minute)));
    }
    for (const span of held.filter(
      ({ isBlackout, dates, except }) => isBlackout && dates === null && except === '{}',
    ))
      for (const minute of minutesOf(span)) isOpen[minute] = false;
    if (!isOpen.includes(true))
      findings.add(
        pathOf(target),
        'leaves no time in which a backfill may be promoted',
        'Widen a window, or narrow a blackout.',
      );
  }
}

/** Its minutes of a week that begins on Monday. */
function minutesOf({ days, from, to }: PromoteSpan): number[] {
  const minute = (time: string): number => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
  const length = minute(to) - minute(from) + (minute(to) <= minute(from) ? minutesOfDay : 0);
  return (days ?? [1, 2, 3, 4, 5, 6, 7]).flatMap((day) =>
    Array.from(
      { length },
      (_, place) => ((day - 1) * minutesOfDay + minute(from) + place) % (7 * minutesOfDay),
    ),
  );
}
