-- emend's own tables in the store. Schema emend exists already: the runner keeps its journal there.

-- One row: the install this store belongs to. Slot, publication, roles and queue prefix carry its id.
create table emend.install (
  id text primary key check (id ~ '^[0-9a-f]{8}$'),
  only_one boolean not null default true unique check (only_one)
);
--> statement-breakpoint
-- What has been migrated. `number` is the target's place in the order of locks; it never changes.
create table emend.target (
  name text primary key,
  number integer generated always as identity unique,
  kind text not null check (kind in ('facts', 'timeline')),
  -- The columns and options that the target's objects were generated from: how `migrate` sees what changed.
  -- json, not jsonb: the order of the fields is kept, so that texts can be compared.
  contract json not null,
  migrated_at timestamptz not null default now(),
  -- Counts the contracts. A worker that prepared its statements for another one must not merge with them.
  revision integer not null default 1,
  -- Set for an adopted table, or one whose known history was imported: before it, what was believed is not known.
  known_since timestamptz
);
--> statement-breakpoint
-- Law 6: which log rows have had their effect. Insert only; written in the transaction of the merge.
-- `_id` comes from one sequence for all logs, so it alone is the key. What is older stands in emend.ledger_block.
create table emend.ledger_recent (
  _id bigint primary key,
  target text not null,
  told_at timestamptz not null,
  _nonce bigint not null,
  _recorded_at timestamptz not null,
  _backfill text,
  _actor text,
  _reason text,
  -- Null: merged. Otherwise what became of it instead (discarded), by whom, and why.
  dismissed text,
  dismissed_by text,
  dismissed_reason text
);
--> statement-breakpoint
comment on table emend.ledger_recent is 'The end of emend.ledger that merges write to; rows are moved on to emend.ledger_block.';
--> statement-breakpoint
-- The ledger, compacted: the rows of 4,096 numbers and one target in one row, column by column, in the order of their numbers.
-- A column of which all are null is null. Written by the leading sweep alone, see src/sweep/compact.ts.
create table emend.ledger_block (
  -- A multiple of 4,096: the first number that belongs here.
  from_id bigint not null,
  target text not null,
  ids int8multirange not null,
  rows integer not null,
  nonces_xor bigint not null,
  -- The backfills that have rows here.
  backfills text[],
  told_at timestamptz[] not null,
  _nonce bigint[] not null,
  _recorded_at timestamptz[] not null,
  _backfill text[],
  _actor text[],
  _reason text[],
  dismissed text[],
  dismissed_by text[],
  dismissed_reason text[],
  primary key (from_id, target)
);
--> statement-breakpoint
comment on table emend.ledger_block is 'The older part of emend.ledger, compacted: a row for 4,096 numbers of a target.';
--> statement-breakpoint
create index ledger_block_backfills on emend.ledger_block using gin (backfills) where backfills is not null;
--> statement-breakpoint
create function emend.numbers_in(ids int8multirange) returns setof bigint
language sql immutable strict
begin atomic
  select generate_series(lower(r.numbers), upper(r.numbers) - 1) from unnest($1) as r (numbers);
end;
--> statement-breakpoint
create function emend.entries_of(block emend.ledger_block) returns setof emend.ledger_recent
language sql immutable
begin atomic
  select e._id, ($1).target, e.told_at, e._nonce, e._recorded_at, e._backfill, e._actor, e._reason,
    e.dismissed, e.dismissed_by, e.dismissed_reason
  from rows from (
    emend.numbers_in(($1).ids),
    unnest(
      ($1).told_at, ($1)._nonce, ($1)._recorded_at, ($1)._backfill, ($1)._actor, ($1)._reason,
      ($1).dismissed, ($1).dismissed_by, ($1).dismissed_reason
    )
  ) as e (_id, told_at, _nonce, _recorded_at, _backfill, _actor, _reason, dismissed, dismissed_by, dismissed_reason);
end;
--> statement-breakpoint
create view emend.ledger as
select r.* from emend.ledger_recent r
union all
select e.* from emend.ledger_block b cross join lateral emend.entries_of(b) as e;
--> statement-breakpoint
comment on view emend.ledger is 'The log rows that are merged or dismissed: a row in it has had its effect, once (law 6). One number: emend.ledger_at(_id).';
--> statement-breakpoint
-- The entry of one number, or none. Inlined: a probe of each of the two indexes.
create function emend.ledger_at(id bigint) returns setof emend.ledger_recent
language sql stable rows 1
begin atomic
  select r.* from emend.ledger_recent r where r._id = $1
  union all
  select $1, b.target, b.told_at[p.place], b._nonce[p.place], b._recorded_at[p.place], b._backfill[p.place], b._actor[p.place],
    b._reason[p.place], b.dismissed[p.place], b.dismissed_by[p.place], b.dismissed_reason[p.place]
  from emend.ledger_block b
  cross join lateral (
    select sum(least(upper(r.numbers), $1 + 1) - lower(r.numbers))::integer as place
    from unnest(b.ids) as r (numbers)
    where lower(r.numbers) <= $1
  ) as p
  where b.from_id = $1 / 4096 * 4096 and b.ids @> $1;
end;
--> statement-breakpoint
comment on function emend.ledger_at(bigint) is 'What the ledger has of one log row, by its _id.';
--> statement-breakpoint
-- The entries of a stretch of numbers, both ends included.
create function emend.ledger_between(first_id bigint, last_id bigint) returns setof emend.ledger_recent
language sql stable
begin atomic
  select r.* from emend.ledger_recent r where r._id between $1 and $2
  union all
  select e.*
  from emend.ledger_block b
  cross join lateral emend.entries_of(b) as e
  where b.from_id between $1 / 4096 * 4096 and $2 and e._id between $1 and $2;
end;
--> statement-breakpoint
comment on function emend.ledger_between(bigint, bigint) is 'What the ledger has of the log rows from one _id to another, both included.';
--> statement-breakpoint
create function emend.ledger_of_backfill(backfill text) returns setof emend.ledger_recent
language sql stable
begin atomic
  select r.* from emend.ledger_recent r where r._backfill = $1
  union all
  select e.*
  from emend.ledger_block b
  cross join lateral emend.entries_of(b) as e
  where b.backfills @> array[$1] and e._backfill = $1;
end;
--> statement-breakpoint
comment on function emend.ledger_of_backfill(text) is 'What the ledger has of the log rows of one backfill.';
--> statement-breakpoint
-- Count and xor of nonces, to be summed over stretches that begin and end at multiples of 4,096.
create view emend.ledger_digest as
select r._id as from_id, r.target, 1 as rows, r._nonce as nonces_xor from emend.ledger_recent r
union all
select b.from_id, b.target, b.rows, b.nonces_xor from emend.ledger_block b;
--> statement-breakpoint
-- The greatest number, which is always among the recent ones.
create function emend.ledger_last_id() returns bigint
language sql stable
return (select max(r._id) from emend.ledger_recent r);
--> statement-breakpoint
-- Law 5 when the source lost what was merged (restored to an older state, a standby promoted with a lag): log rows that log and
-- ledger do not have alike, each named by its number and its nonce. See src/sweep/diverged.ts.
create table emend.diverged (
  _id bigint not null,
  _nonce bigint not null,
  target text not null,
  -- lost: it is merged, and the log does not have it any more. reused: it is in the log, and not merged, since the ledger has its number of another row.
  kind text not null check (kind in ('lost', 'reused')),
  noticed_at timestamptz not null default clock_timestamp(),
  -- Null: open. Otherwise what was decided: the effect of a lost row is kept, a reused one is adopted as a new correction.
  resolution text check (resolution = case kind when 'lost' then 'kept' else 'adopted' end),
  resolved_at timestamptz,
  resolved_by text,
  resolved_reason text,
  -- The number under which an adopted row was written again.
  new_id bigint,
  primary key (_id, _nonce)
);
--> statement-breakpoint
comment on table emend.diverged is 'Log rows that log and ledger do not have alike, since the source lost what was merged; what was decided about each (law 5).';
--> statement-breakpoint
create index diverged_open on emend.diverged (target, kind, _id) where resolution is null;
--> statement-breakpoint
-- Law 5 when the store was put back to an older state, and rows that it lost are no longer in the log: the archives of the source
-- (corrections._archive) whose rows were held against this ledger. One that is not here is compared by the sweep.
create table emend.archive (
  sha256 text primary key,
  target text not null,
  file text not null,
  rows bigint not null,
  -- Rows of it that the ledger does not have: emend archive restore puts them back into the log.
  lacking bigint not null default 0,
  compared_at timestamptz not null default clock_timestamp()
);
--> statement-breakpoint
comment on table emend.archive is 'Files of archived log rows that were compared with the ledger (law 5).';
--> statement-breakpoint
-- One row a merge. Its greatest told_at is the floor of the next K: K is strictly increasing per key even when the clock steps back.
create table emend.merge (
  told_at timestamptz not null,
  target text not null,
  rows integer not null
);
--> statement-breakpoint
create index merge_told_at on emend.merge (told_at);
--> statement-breakpoint
-- Law 8: rows that could not be merged, each alone, with its reason. A record of it is kept for ever: the ledger says what
-- became of it, so that no state is written twice.
create table emend.dead_letter (
  _id bigint primary key,
  target text not null,
  -- The log row, column by column, as the server's own text.
  log_row jsonb not null,
  sqlstate text not null,
  reason text not null,
  attempts integer not null default 1,
  set_aside_at timestamptz not null default clock_timestamp(),
  -- The last attempt; sqlstate and reason are of this one.
  tried_at timestamptz not null default clock_timestamp(),
  -- A row of a backfill that was retried and staged: it waits for its promote, and is in no ledger until then.
  staged_at timestamptz
);
--> statement-breakpoint
comment on table emend.dead_letter is 'Log rows that were set aside, each with its reason; nothing is dropped in silence (law 8).';
--> statement-breakpoint
create view emend.dead_letter_open as
select d.*
from emend.dead_letter d
where d.staged_at is null and not exists (select from emend.ledger_at(d._id));
--> statement-breakpoint
comment on view emend.dead_letter_open is 'Log rows that are set aside now: neither merged, staged nor discarded since.';
--> statement-breakpoint
-- The guard of every merge: its statements list the columns of one contract. Under another one it would leave a column out of
-- history in silence. EM001 tells the worker to read the targets again.
create function emend.require_revision(of_target text, expected integer) returns boolean
language plpgsql stable
as $$
declare
  found_revision integer := (select t.revision from emend.target t where t.name = of_target);
begin
  if found_revision is distinct from expected then
    raise exception 'target % is at revision %, this worker at %', of_target, found_revision, expected
      using errcode = 'EM001', hint = 'The worker reads the targets again and goes on.';
  end if;
  return true;
end;
$$;
--> statement-breakpoint
-- Law 8: what a merge decided is what the table took. EM005 sets the row at fault aside. See src/merge/require-written.ts.
create function emend.require_written(of_table text, decided bigint, done bigint) returns boolean
language plpgsql immutable
as $$
begin
  if done <> decided then
    raise exception '% of % changes to % were not made as stated: a trigger of the table changes rows or leaves them out', decided - done, decided, of_table
      using errcode = 'EM005', hint = 'Let the trigger raise an error instead, or take it away: the table has to be what its log says.';
  end if;
  return true;
end;
$$;
--> statement-breakpoint
-- Takes the locks of keys of one target, by the hashes of the keys, for the rest of the transaction. See src/merge/lock-keys.ts.
--
-- Each key falls into one of 256 buckets. A merge of few keys shares the locks of its buckets and has those of its keys to itself, so
-- it runs beside the others; one of many keys has its buckets to itself. Who takes locks takes them in one order: by target,
-- buckets before keys, the lowest first.
--
-- The server has a table of locks of fixed size, which all of its sessions share. Merges by key leave half of it to others: there
-- are 8 at a time, each of a sixteenth at most; one more takes buckets.
create function emend.lock_keys(of_number integer, hashes bigint[]) returns void
language plpgsql
as $$
declare
  -- hashes come as often as their keys do
  distinct_keys constant integer[] := array(select distinct (hash >> 32)::integer as key from unnest(hashes) as hash order by key);
  buckets constant integer := x'656d0000'::integer + of_number;
  keys constant integer := x'656c0000'::integer + of_number;
  at_most constant bigint := current_setting('max_locks_per_transaction')::bigint * current_setting('max_connections')::bigint / 16;
begin
  if cardinality(distinct_keys) <= at_most and exists (
    select from generate_series(1, 8) as place
    where pg_try_advisory_xact_lock(x'656e0003'::integer, place)
  ) then
    perform count(pg_advisory_xact_lock_shared(buckets, bucket))
    from (select distinct (hash & 255)::integer as bucket from unnest(hashes) as hash order by bucket offset 0) as b;
    perform count(pg_advisory_xact_lock(keys, key)) from unnest(distinct_keys) as key;
  else
    perform count(pg_advisory_xact_lock(buckets, bucket))
    from (select distinct (hash & 255)::integer as bucket from unnest(hashes) as hash order by bucket offset 0) as b;
  end if;
end;
$$;
--> statement-breakpoint
-- The store's clock. Only the ticker writes it; a row no merge ever locks. See src/store/clock.ts.
create table emend.clock (
  only_one boolean primary key default true check (only_one),
  -- System identifier and timeline of the server that the clock ran on last: another one means a restore or a failover.
  server text,
  -- No merge that starts from now on takes a K at or below it.
  horizon timestamptz not null,
  -- Answers about times up to here are final.
  settled timestamptz not null check (settled <= horizon)
);
--> statement-breakpoint
insert into emend.clock (horizon, settled) values (clock_timestamp(), clock_timestamp() - interval '1 microsecond');
--> statement-breakpoint
create function emend.settled() returns timestamptz
language sql stable
return (select c.settled from emend.clock c where c.only_one);
--> statement-breakpoint
comment on function emend.settled() is 'The time up to which answers about what was believed are final; pass it as known_at to ask about the settled present.';
--> statement-breakpoint
-- Waits for answers about a time to become final. Volatile: each look takes a snapshot of its own (READ COMMITTED).
create function emend.await_settled(known_at timestamptz, timeout interval default interval '10 seconds') returns timestamptz
language plpgsql volatile
as $$
declare
  give_up_at timestamptz := clock_timestamp() + timeout;
begin
  while emend.settled() < known_at loop
    if clock_timestamp() > give_up_at then
      raise exception 'what was believed at % is not settled after %; answers are final up to %', known_at, timeout, emend.settled()
        using errcode = '55000', hint = 'The settled time stands still while no emend worker runs, and behind a long merge.';
    end if;
    perform pg_sleep(0.02);
  end loop;
  return known_at;
end;
$$;
--> statement-breakpoint
comment on function emend.await_settled(timestamptz, interval) is 'Returns known_at once answers about it are final. Call it in a statement of its own, before the question.';
--> statement-breakpoint
-- Law 4 after a restore. A store that was put back to an older state merges what it lost once more, at later times: what it
-- answered about the time in between cannot be answered again.
create table emend.clock_gap (
  -- What was believed at a time after `after` and up to `until` is not known.
  after timestamptz not null,
  until timestamptz not null check (after < until),
  reason text not null,
  recorded_at timestamptz not null default clock_timestamp()
);
--> statement-breakpoint
comment on table emend.clock_gap is 'Times of belief that were lost with a store that was restored: questions about them are refused (law 4).';
--> statement-breakpoint
-- For whoever restores a store in a way that cannot be seen from inside (a copy of the data folder): before workers run on it.
create function emend.record_clock_gap(reason text) returns emend.clock_gap
language sql volatile set search_path = ''
begin atomic
  insert into emend.clock_gap (after, until, reason)
  select c.settled, clock_timestamp(), reason from emend.clock c
  returning *;
end;
--> statement-breakpoint
comment on function emend.record_clock_gap(text) is 'Says that this store was restored to an older state: what was believed since then, and up to now, is refused as a time of belief.';
--> statement-breakpoint
-- The guard of every question about a time of belief (law 4): an answer about a time that is not settled could still change,
-- and before a table was adopted nothing is known of what was believed.
-- plpgsql and stable: the planner makes it a one-time filter, and inlines the function around it.
create function emend.require_known(known_at timestamptz, of_target text) returns boolean
language plpgsql stable
as $$
declare
  settled_at timestamptz := emend.settled();
  since timestamptz := (select t.known_since from emend.target t where t.name = of_target);
  gap emend.clock_gap;
begin
  if known_at is null then
    raise exception 'known_at is null'
      using errcode = '22004', hint = 'Leave known_at out to ask about the present, or give a time up to emend.settled().';
  end if;
  if known_at > settled_at then
    raise exception 'what was believed at % is not settled yet; answers are final up to %', known_at, settled_at
      using errcode = '55000',
        hint = 'Ask about emend.settled(), or leave known_at out to read the present. The settled time stands still while no emend worker runs.';
  end if;
  if known_at < since then
    raise exception 'what was believed of % at % is not known: its rows were adopted at %', of_target, known_at, since
      using errcode = '55000', hint = 'Ask about a time from the adoption on.';
  end if;
  select g.* into gap from emend.clock_gap g where g.after < known_at and known_at <= g.until limit 1;
  if found then
    raise exception 'what was believed at % is not known: the store was restored, and has lost the time from % to %', known_at, gap.after, gap.until
      using errcode = '55000', hint = 'Ask about a time outside of it. See emend.clock_gap.';
  end if;
  return true;
end;
$$;
--> statement-breakpoint
-- Corrections that were taken back, one by one. They stay in history, and no fold sees them again.
create table emend.undone (
  _id bigint not null,
  target text not null,
  told_at timestamptz not null,
  actor text not null,
  reason text not null,
  -- the ids of adopted rows, below zero, are each target's own
  primary key (_id, target)
);
--> statement-breakpoint
-- Law 5: how far each log is known to be in the ledger. Only the leading sweep writes here. It lives beside the ledger, so a
-- restored store has the mark that belongs to its ledger. See src/sweep/sweep.ts.
create table emend.sweep (
  target text primary key,
  -- The source's system identifier and timeline. On another one transaction ids mean nothing: all is compared anew.
  source text not null,
  -- Every committed row of the log with a lower _xid has had its effect.
  below_xid xid8 not null,
  -- Rows up to this _id are compared whatever their _xid says: they were there before `source` was first seen. Null: they have been.
  ids_up_to bigint
);
--> statement-breakpoint
comment on table emend.sweep is 'Up to where log and ledger have been compared: everything below had its effect (law 5).';
--> statement-breakpoint
-- One row: the sweep's last round, and what it is asked for.
create table emend.sweep_round (
  only_one boolean primary key default true check (only_one),
  -- The queue's epoch under which everything that was missing has been enqueued: another one means that jobs were lost.
  epoch text,
  asked_at timestamptz,
  -- Compare the logs from their beginning.
  asked_all boolean not null default false,
  -- The asked_at that the last complete round was for.
  answered_at timestamptz,
  ended_at timestamptz,
  took_ms integer,
  -- Rows of the last round: compared, missing from the store, put on the queue.
  compared bigint not null default 0,
  missing bigint not null default 0,
  enqueued bigint not null default 0,
  -- The targets that it compared: those of the configuration of the process that leads. Null: no round has told yet. A mark in
  -- emend.sweep stays when a worker no longer knows its target, so the marks cannot tell.
  targets text[],
  -- The last round that put rows on the queue.
  last_enqueued_at timestamptz,
  last_enqueued bigint not null default 0,
  -- What was committed before is known to have had its effect.
  complete_as_of timestamptz
);
--> statement-breakpoint
comment on table emend.sweep_round is 'When the sweep last compared log and ledger, and what it found.';
--> statement-breakpoint
insert into emend.sweep_round default values;
--> statement-breakpoint
-- One row: what readers had to cut, as they counted it. One that is sent again after a reconnect is counted again.
create table emend.cut (
  only_one boolean primary key default true check (only_one),
  transactions bigint not null default 0,
  since timestamptz not null default clock_timestamp(),
  last_at timestamptz
);
--> statement-breakpoint
comment on table emend.cut is 'Source transactions that were larger than atomicRows or atomicBytes, and so became visible in parts (law 7).';
--> statement-breakpoint
insert into emend.cut default values;
--> statement-breakpoint
-- Every rebuild of a target: from what it was folded, what differed, and what became of it. See src/verify/rebuild.ts.
create table emend.rebuild (
  id bigint generated always as identity primary key,
  target text not null,
  actor text not null default current_user,
  reason text,
  -- What folded: the version of emend, and the contract of the target (emend.target.revision).
  logic text not null,
  revision integer not null,
  -- What was folded: all that was told up to this time, of the log up to this _id, as it stood at this position of the source's WAL.
  known_at timestamptz,
  log_up_to bigint,
  log_position pg_lsn,
  corrections bigint,
  -- How many of each kind of difference and gap there were.
  found jsonb,
  -- Where a target as known at a time was written to; null: it was compared with the target itself.
  written_to text,
  -- Rows that the swap took out and put in: of target, history, tombstones and shadows.
  taken_out bigint,
  put_in bigint,
  -- Null: at work, or the process died; the next rebuild of the target then says so.
  outcome text check (outcome in ('compared', 'swapped', 'written', 'failed', 'died')),
  -- The code of the error that it failed with.
  problem text,
  started_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz
);
--> statement-breakpoint
comment on table emend.rebuild is 'Folds of whole targets from their logs: who, when, why, from what, and what was found and done.';
