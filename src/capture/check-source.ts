import type { ClientBase } from 'pg';
import { literal } from '../db/identifier.ts';
import type { Problem } from '../errors.ts';

interface Facts {
  readonly version: number;
  readonly versionText: string;
  readonly walLevel: string;
  readonly encoding: string;
  readonly role: string;
  readonly mayReplicate: boolean;
  /** Slots of emend that are not there yet. */
  readonly slotsToMake: number;
  readonly slotsFree: number;
  readonly sendersFree: number;
}

/** What keeps a server from being a source, all at once. Run it as the role that the reader will use. */
export async function checkSource(
  client: Pick<ClientBase, 'query'>,
  { slots }: { slots: readonly string[] },
): Promise<Problem[]> {
  return findings(await readFacts(client, slots));
}

function findings(facts: Facts): Problem[] {
  const problems: Problem[] = [];
  const report = (problem: string, remedy: string): void => {
    problems.push({ path: 'source.url', problem, remedy });
  };
  if (facts.version < 150_000) {
    report(
      `the server runs PostgreSQL ${facts.versionText}`,
      'Use PostgreSQL 15 or later: older ones know no row filters.',
    );
  }
  if (facts.walLevel !== 'logical') {
    report(
      `wal_level is ${facts.walLevel}`,
      'Set wal_level = logical and restart the server (on managed services: the switch for logical replication).',
    );
  }
  if (facts.encoding === 'SQL_ASCII') {
    report(
      'the database has the encoding SQL_ASCII',
      'Use a database with the encoding UTF8: bytes without one cannot travel as text.',
    );
  }
  if (!facts.mayReplicate) {
    report(
      `role ${facts.role} may not replicate`,
      `Run: alter role ${facts.role} with replication (on RDS: grant rds_replication to ${facts.role}).`,
    );
  }
  if (facts.slotsToMake > facts.slotsFree) {
    report(
      facts.slotsFree < 1
        ? 'every replication slot is taken'
        : `${facts.slotsFree} replication slots are free, and ${facts.slotsToMake} are needed`,
      'Raise max_replication_slots and restart the server, or drop slots that nobody uses.',
    );
  }
  // one for a reader that takes over, or for the first one
  if (facts.sendersFree < Math.max(1, facts.slotsToMake)) {
    report(
      facts.sendersFree < 1
        ? 'every replication connection is taken'
        : `${facts.sendersFree} replication connections are free, and ${facts.slotsToMake} are needed`,
      'Raise max_wal_senders and restart the server.',
    );
  }
  return problems;
}

async function readFacts(client: Pick<ClientBase, 'query'>, slots: readonly string[]): Promise<Facts> {
  const named = slots.map(literal).join(', ');
  const { rows } = await client.query<{ facts: string }>(
    `select jsonb_build_object(
       'version', current_setting('server_version_num')::int,
       'versionText', current_setting('server_version'),
       'walLevel', current_setting('wal_level'),
       'encoding', current_setting('server_encoding'),
       'role', current_user,
       'mayReplicate', r.rolsuper or r.rolreplication or exists (
         select from pg_roles granted
         where granted.rolname = 'rds_replication' and pg_has_role(granted.oid, 'member')),
       'slotsToMake', ${slots.length} - (select count(*) from pg_replication_slots s where s.slot_name in (${named})),
       'slotsFree', current_setting('max_replication_slots')::int - (select count(*) from pg_replication_slots),
       'sendersFree', current_setting('max_wal_senders')::int - (select count(*) from pg_stat_replication)
     )::text as facts
     from pg_roles r
     where r.rolname = current_user`,
  );
  return JSON.parse(rows[0]!.facts) as Facts;
}
