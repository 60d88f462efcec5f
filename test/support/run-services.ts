import { startServices } from '../../src/dev/services.ts';

/** A program of its own that starts services, says which, and then just lives, or ends in the way its argument names. */
const [dir = '', ending = 'stay'] = process.argv.slice(2);
const services = await startServices({ dir, redis: 'required', fast: true });
process.stdout.write(`${JSON.stringify({ pids: [services.postgres?.pid, services.redis?.pid] })}\n`);
if (ending === 'throw') throw new Error('an uncaught error');
if (ending === 'stay') setInterval(() => undefined, 60_000);
