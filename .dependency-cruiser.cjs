// The house has floors: a file imports from its own folder or from a lower floor, never sideways, never up.
// Type imports count. `.ci/layers.mjs` runs this and fails when a file of src was not looked at.
// Lowest first. errors.ts lies below all of them; index.ts, the public surface, may import from everywhere.
const floors = [
  ['config', 'db', 'observe', 'dev'],
  ['change'],
  ['log', 'store'],
  ['capture', 'queue', 'merge'],
  ['backfill', 'repair', 'sweep', 'verify'],
  ['pipeline'],
  ['cli', 'console'],
];

const folders = floors.flat();
const oneOf = (names) => `^src/(${names.join('|')})/`;

const floorRules = floors.flatMap((names, floor) =>
  names.map((name) => ({
    name: `floor-of-${name}`,
    comment: `${name} imports from its own folder and from lower floors only`,
    severity: 'error',
    from: { path: `^src/${name}/` },
    to: { path: [oneOf(floors.slice(floor).flat()), '^src/index\\.ts$'], pathNot: `^src/${name}/` },
  })),
);

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    ...floorRules,
    {
      name: 'errors-imports-nothing',
      severity: 'error',
      from: { path: '^src/errors\\.ts$' },
      to: { path: '^src/' },
    },
    {
      name: 'unknown-folder',
      comment: 'A new folder of src needs a floor: add it to the list in .dependency-cruiser.cjs',
      severity: 'error',
      from: { path: '^src/', pathNot: [oneOf(folders), '^src/(errors|index)\\.ts$'] },
      to: {},
    },
    { name: 'no-circle', severity: 'error', from: {}, to: { circular: true } },
    { name: 'resolvable', severity: 'error', from: {}, to: { couldNotResolve: true } },
    {
      name: 'no-development-packages',
      comment: 'What src imports must be installed with emend: dependencies, not devDependencies',
      severity: 'error',
      from: { path: '^src/' },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'],
        dependencyTypesNot: ['npm', 'npm-peer', 'type-only'],
      },
    },
    {
      name: 'nothing-from-tests',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(test|bench|examples)/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
    },
  },
};
