/**
 * Every setting that is not a target, in one table: the check, the defaults and the README's table are made from it.
 */
export interface UrlOption {
  readonly path: 'source.url' | 'source.replicationUrl' | 'store.url' | 'queue.redis';
  readonly env: string;
  readonly kind: 'postgres' | 'redis';
  /** What stands in for a missing value; null: there has to be one. */
  readonly fallback: string | null;
  readonly description: string;
}

export interface NumberOption {
  readonly path:
    | 'queue.maxBytes'
    | 'capture.atomicRows'
    | 'capture.atomicBytes'
    | 'capture.lingerMs'
    | 'capture.readers'
    | 'merge.concurrency'
    | 'log.keepDays';
  readonly default: number;
  readonly min: number;
  readonly max: number;
  readonly description: string;
}

export const urlOptions: readonly UrlOption[] = [
  {
    path: 'source.url',
    env: 'SOURCE_URL',
    kind: 'postgres',
    fallback: null,
    description: "The application's Postgres, where corrections are written.",
  },
  {
    path: 'source.replicationUrl',
    env: 'REPLICATION_URL',
    kind: 'postgres',
    fallback: 'source.url',
    description: 'A direct connection for replication, where source.url goes through a pooler.',
  },
  {
    path: 'store.url',
    env: 'STORE_URL',
    kind: 'postgres',
    fallback: null,
    description: 'The analytics Postgres, where the targets live.',
  },
  {
    path: 'queue.redis',
    env: 'REDIS_URL',
    kind: 'redis',
    fallback: 'the PostgreSQL queue in the store',
    description: 'Redis for the queue, with maxmemory-policy noeviction.',
  },
];

export const numberOptions: readonly NumberOption[] = [
  {
    path: 'queue.maxBytes',
    default: 268_435_456,
    min: 1_048_576,
    max: 1_099_511_627_776,
    description: 'Bytes it may hold; when it gets full, it is told where rows are, not the rows.',
  },
  {
    path: 'capture.atomicRows',
    default: 1_000,
    min: 1,
    max: 100_000,
    description: 'Rows of one source transaction that become visible together; a larger one is cut.',
  },
  {
    path: 'capture.atomicBytes',
    default: 1_048_576,
    min: 1_024,
    max: 67_108_864,
    description: 'The same in bytes of text.',
  },
  {
    path: 'capture.lingerMs',
    default: 5,
    min: 0,
    max: 10_000,
    description: 'How long small transactions may wait to be packed into one job, in ms.',
  },
  {
    path: 'capture.readers',
    default: 1,
    min: 1,
    max: 16,
    description: 'Slots among which the transactions of the source are shared, each with a reader.',
  },
  {
    path: 'merge.concurrency',
    default: 2,
    min: 1,
    max: 64,
    description: 'Jobs that one worker process merges at a time.',
  },
  {
    path: 'log.keepDays',
    default: 0,
    min: 0,
    max: 36_500,
    description: 'Days that a row is to stay in its log; older ones are for emend archive. 0: for ever.',
  },
];
