// Runs a program in TypeScript as a process of its own: `node run-program.mjs <file>`.
import { createJiti } from 'jiti';

await createJiti(import.meta.url).import(process.argv[2]);
