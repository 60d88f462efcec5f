// The entry of `npm run bench`: plain JavaScript, which loads the TypeScript beside it.
import { createJiti } from 'jiti';

await createJiti(import.meta.url).import('./bench.ts');
