// Import directions of src (rules in .dependency-cruiser.cjs). A checker that quietly looks at nothing is worse than none:
// it has happened with a newer TypeScript. So every file of src has to appear in its report.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const depcruise = join(root, 'node_modules', 'dependency-cruiser', 'bin', 'dependency-cruise.mjs');
const { stdout, stderr } = spawnSync(
  process.execPath,
  [depcruise, 'src', '--config', '--output-type', 'json'],
  {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  },
);

let report;
try {
  report = JSON.parse(stdout);
} catch {
  console.error(`layers: dependency-cruiser gave no report\n${stderr}`);
  process.exit(1);
}

const files = readdirSync(join(root, 'src'), { recursive: true })
  .map((name) => `src/${name.replaceAll('\\', '/')}`)
  .filter((name) => name.endsWith('.ts'));
const seen = new Map(report.modules.map((module) => [module.source, module.dependencies.length]));
const missed = files.filter((name) => !seen.has(name));
const dependencies = files.reduce((sum, name) => sum + (seen.get(name) ?? 0), 0);

for (const { rule, from, to } of report.summary.violations)
  console.error(`layers: ${rule.name}: ${from} -> ${to}`);
for (const name of missed) console.error(`layers: ${name} was not looked at`);
if (files.length === 0 || dependencies === 0) console.error('layers: no import was looked at');
if (report.summary.violations.length > 0 || missed.length > 0 || files.length === 0 || dependencies === 0)
  process.exit(1);
console.log(`layers: ${files.length} files, ${dependencies} imports, all downwards`);
