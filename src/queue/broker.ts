import type { IQueueBackend, Job, JobProgress, Queue, QueueBaseOptions, Worker, WorkerOptions } from 'bullmq';
import type { ErrorLog } from './error-log.ts';

/** A BullMQ queue each: workers take them side by side, so that no lane waits for another. */
export const lanes = ['live', 'backfill'] as const;
export type Lane = (typeof lanes)[number];

/** BullMQ's classes, without regard to the server behind them. What their options call a connection is made by the broker. */
export type BullQueue = Queue<unknown, void, string, unknown, void, string, IQueueBackend, object>;
export type BullWorker = Worker<unknown, void, string, IQueueBackend, JobProgress, object>;
export type BackendOptions = QueueBaseOptions<object>;
export type BullWorkerOptions = Omit<WorkerOptions<object>, 'connection'>;
export type Process = (job: Job<unknown, void>, token?: string, signal?: AbortSignal) => Promise<void>;

/** What Redis and Postgres do differently as the home of a queue. Everything else of this folder is the same for both. */
export interface Broker {
  readonly kind: 'redis' | 'postgres';
  openQueue(lane: Lane): BullQueue;
  openWorker(lane: Lane, process: Process, options: BullWorkerOptions): OpenedWorker;
  /** The epoch that the server holds, or null when it holds none: it is new, was emptied, or was exchanged. */
  readEpoch(): Promise<string | null>;
  /** Sets the epoch where there is none; returns the one that then stands. */
  claimEpoch(candidate: string): Promise<string>;
  /** What its server holds in bytes, and the most that it was given, if it was. */
  readUse(): Promise<Use>;
  /** Gives up commands without an answer: they would otherwise be held in memory, with their batches, and sent later. */
  abandonCommands(): void;
  close(): Promise<void>;
  /** Cuts what is still connected, without asking the server. */
  cut(): void;
}

export interface Use {
  /** Of this install's jobs, or, where that cannot be told apart, of everybody. */
  readonly bytes: number;
  readonly limit: number | null;
}

export interface OpenedWorker {
  readonly worker: BullWorker;
  /** Cuts the worker's own connections. */
  cut(): void;
}

export interface BrokerOptions {
  readonly prefix: string;
  readonly role: string;
  readonly errors: ErrorLog;
}
