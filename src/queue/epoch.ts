import { randomBytes } from 'node:crypto';
import type { Broker } from './broker.ts';
import { answerOf } from './deadline.ts';

/**
 * The epoch is a random value beside the jobs: when it is gone, so are they. It does not see a server that came back
 * with an older state (a failover, the tail of an append-only file); that is the sweep's work.
 */
export interface Epoch {
  /** The epoch under which batches are published now; it is asked for when it is not known yet. */
  known(): Promise<string>;
  /** Each gives false once after the server's epoch has changed, whoever noticed it first; from then on the new one is current. */
  createWatch(): () => Promise<boolean>;
  read(): Promise<string>;
}

export function createEpoch(broker: Broker, timeoutMs: number): Epoch {
  let current = '';
  let changes = 0;

  async function readOrClaim(): Promise<string> {
    return (await broker.readEpoch()) ?? (await broker.claimEpoch(randomBytes(6).toString('hex')));
  }

  const read = (): Promise<string> => answerOf(timeoutMs, readOrClaim(), 'reading the epoch of the queue');

  return {
    async known() {
      if (current === '') current = await read();
      return current;
    },
    createWatch() {
      let seen = changes;
      return async () => {
        const standing = await read();
        if (standing !== current) changes += 1;
        current = standing;
        const unchanged = seen === changes;
        seen = changes;
        return unchanged;
      };
    },
    read,
  };
}
