// The entry of `npm run demo:reprice`: plain JavaScript, which loads the TypeScript beside it.
import { fileURLToPath } from 'node:url';
import { createJiti } from 'jiti';

const built = (path) => fileURLToPath(new URL(`../../dist/${path}`, import.meta.url));
const jiti = createJiti(import.meta.url, {
  alias: { 'emend/dev': built('dev/services.js'), emend: built('index.js') },
});
await jiti.import('./demo.ts');
