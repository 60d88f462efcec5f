// docker-compose.yml cannot be started everywhere, so what it must say is checked here: it parses, and its servers are
// set up as the ones that the tests start (src/dev). Where Docker Compose is installed, it reads the file too.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (name) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const problems = [];
const must = (holds, message) => {
  if (!holds) problems.push(message);
};

const { services, volumes, configs } = parse(read('docker-compose.yml'), { merge: true, strict: true });
const { postgres, redis, migrate, reader, worker } = services;
const settings = (service) => service.command.join(' ');

const testServers = read('src/dev/postgres.ts');
for (const name of [
  'wal_level',
  'max_wal_senders',
  'max_replication_slots',
  'max_connections',
  'max_prepared_transactions',
  'shared_buffers',
]) {
  const value = new RegExp(`^ +${name}: '([^']+)'`, 'm').exec(testServers)?.[1];
  must(value !== undefined, `src/dev/postgres.ts does not set ${name}`);
  must(
    settings(postgres).includes(`-c ${name}=${value}`),
    `postgres: ${name} is ${value} in src/dev/postgres.ts`,
  );
}
must(settings(postgres).includes('max_slot_wal_keep_size='), 'postgres: max_slot_wal_keep_size is not set');
must(settings(redis).includes('--appendonly yes'), 'redis: the append-only file is off');
must(settings(redis).includes('--maxmemory-policy noeviction'), 'redis: the policy must be noeviction');

for (const [name, service] of Object.entries({ postgres, redis })) {
  must(Array.isArray(service.healthcheck?.test), `${name}: no health check`);
  must(service.volumes?.length > 0, `${name}: its data is in no volume`);
  must(
    service.ports.every((port) => port.startsWith('127.0.0.1:')),
    `${name}: its port is open to the network`,
  );
}
for (const [name, service] of Object.entries({ migrate, reader, worker })) {
  must(service.command[0] === name, `${name}: must run "emend ${name}"`);
  const names = Object.keys(service.environment);
  for (const variable of ['SOURCE_URL', 'REPLICATION_URL', 'STORE_URL', 'REDIS_URL']) {
    must(names.includes(variable), `${name}: ${variable} is not passed`);
  }
  for (const server of ['postgres', 'redis']) {
    must(
      service.depends_on[server]?.condition === 'service_healthy',
      `${name}: must wait for a healthy ${server}`,
    );
  }
  must(service.container_name === undefined, `${name}: a fixed container name cannot be scaled`);
}
for (const [name, service] of Object.entries({ reader, worker })) {
  must(
    service.depends_on.migrate?.condition === 'service_completed_successfully',
    `${name}: must wait for migrate`,
  );
  must(service.restart === 'unless-stopped', `${name}: must be restarted`);
}
for (const service of Object.values(services)) {
  for (const volume of service.volumes ?? []) {
    if (typeof volume === 'string') must(volume.split(':')[0] in volumes, `volume ${volume} is not declared`);
  }
  for (const { source } of service.configs ?? []) must(source in configs, `config ${source} is not declared`);
}

const dockerfile = read('Dockerfile');
must((dockerfile.match(/^FROM /gm) ?? []).length > 1, 'Dockerfile: must be multi-stage');
must(/^USER (?!root)\w+/m.test(dockerfile), 'Dockerfile: must not run as root');

const compose = ['compose', '-f', 'docker-compose.yml', 'config', '--quiet'];
const available = spawnSync('docker', ['compose', 'version'], { stdio: 'ignore' }).status === 0;
if (available) {
  const { status, stderr } = spawnSync('docker', compose, { cwd: root, encoding: 'utf8' });
  must(status === 0, `docker compose config: ${stderr}`);
}

for (const problem of problems) console.error(`docker-compose.yml: ${problem}`);
if (problems.length > 0) process.exit(1);
console.log(
  `compose: ${Object.keys(services).length} services${available ? ', accepted by docker compose config' : ''}`,
);
