// The entry of `npm run soak -- --minutes N`: plain JavaScript, which loads the TypeScript beside it.
import { parseArgs } from 'node:util';
import { createJiti } from 'jiti';

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '10' } } });
const minutes = Number(values.minutes);
if (!(minutes >= 1)) {
  process.stderr.write('npm run soak -- --minutes N: a number, 1 or more\n');
  process.exit(2);
}
const { soak } = await createJiti(import.meta.url).import('./soak.ts');
process.exit((await soak(minutes * 60_000)) ? 0 : 1);
