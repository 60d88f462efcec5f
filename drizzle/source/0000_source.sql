-- emend's own tables in the source. Schema corrections exists already: the runner keeps its journal there.

-- One sequence for all logs: `_id` is the version of a correction, and a total order needs one source of numbers.
-- Cache 1: a session with numbers in stock would hand out old ones after newer ones were merged.
create sequence corrections._id as bigint cache 1;
--> statement-breakpoint
-- One row: the install. Slot, publication, roles and queue prefix carry its id, since slots and roles are cluster-wide.
create table corrections._install (
  id text primary key default left(gen_random_uuid()::text, 8) check (id ~ '^[0-9a-f]{8}$'),
  only_one boolean not null default true unique check (only_one),
  installed_at timestamptz not null default now(),
  -- Since when a store has this id. Null: none has, and the next migrate gives it to the store that it finds.
  store_since timestamptz
);
--> statement-breakpoint
insert into corrections._install default values;
--> statement-breakpoint
-- A backfill as its author stated it. Its state is the fold of its requests; only what `seal` counts is written later.
create table corrections._backfill (
  name text primary key,
  -- An import of known history goes the way of a backfill into the log; `emend import` itself merges it.
  kind text not null default 'backfill' check (kind in ('backfill', 'import')),
  targets text[] not null check (cardinality(targets) > 0),
  -- What its rows must stay within: {"<target>": {"from": …, "to": …, "where": …}}, the valid period (of facts: event time)
  -- as text and a filter of keys as SQL.
  boundary jsonb not null default '{}',
  logic_version text,
  reason text,
  actor text not null default current_user,
  opened_at timestamptz not null default now(),
  -- Where the raw input comes from, and the checksum of a backfill file.
  origin jsonb not null default '{}',
  -- The author's own checks and thresholds, for the workers.
  checks jsonb not null default '{}',
  -- Set once, by seal or abandon, under `for update`: from then on no row can be added.
  closed_at timestamptz,
  -- {"<target>": {"rows": 5, "digest": "123", "columns": ["_id", …]}}: what the store must hold before it goes on. Written once, by seal.
  sealed jsonb,
  constraint "a backfill's name is a-z, 0-9, _, - and ., up to 100" check (name ~ '^[a-z0-9][a-z0-9_.-]{0,99}$')
);
--> statement-breakpoint
comment on table corrections._backfill is 'Named batches of corrections that become visible all at once, or never.';
--> statement-breakpoint
-- Insert only and published, since an updated state would never reach the store. `_id` is of the logs' sequence:
-- the ledger knows requests and corrections by one number.
create table corrections._request (
  _id bigint primary key default nextval('corrections._id'),
  -- Null for what is of a single correction: undo, adopt.
  backfill text references corrections._backfill (name),
  request text not null,
  -- A chunk's range of ids; a promote's accepted checks; the correction of an undo; the old and the new number of an adopt.
  details jsonb not null default '{}',
  _reason text,
  _actor text not null default current_user,
  _recorded_at timestamptz not null default now(),
  _xid xid8 not null default pg_current_xact_id(),
  constraint "a request is chunk, seal, promote, revert, abandon, undo or adopt"
    check (request in ('chunk', 'seal', 'promote', 'revert', 'abandon', 'undo', 'adopt')),
  constraint "a request names its backfill, an undo or adopt its correction"
    check ((backfill is null) = (request in ('undo', 'adopt')))
);
--> statement-breakpoint
comment on table corrections._request is 'What was asked for a backfill, or for a single correction (undo, adopt). Insert only; the state of a backfill is the fold of its requests.';
--> statement-breakpoint
create index _request_backfill on corrections._request (backfill, _id);
--> statement-breakpoint
-- The state as asked for here; as far as the store has come stands in the store.
create view corrections._backfill_state as
select b.name, b.kind, b.targets,
  coalesce(last.state, 'open') as state,
  coalesce(last.asked_at, b.opened_at) as since,
  coalesce(last.actor, b.actor) as actor,
  case when last.state is null then b.reason else last.reason end as reason
from corrections._backfill b
left join lateral (
  select case r.request
           when 'seal' then 'sealed'
           when 'promote' then 'promoted'
           when 'revert' then 'reverted'
           else 'abandoned'
         end as state,
         r._recorded_at as asked_at, r._actor as actor, r._reason as reason
  from corrections._request r
  where r.backfill = b.name and r.request <> 'chunk'
  order by r._id desc
  limit 1
) as last on true;
--> statement-breakpoint
comment on view corrections._backfill_state is 'The state of each backfill as it was asked for in this database.';
--> statement-breakpoint
-- Log rows that were moved to files, one row a file. Together with the log it says what was ever written: a row leaves the log in the
-- transaction that records it here, so that a source that is put back to an older state has each of its rows in one of the two.
create table corrections._archive (
  number bigint primary key generated always as identity,
  target text not null,
  -- Exactly these rows.
  ids int8multirange not null,
  rows bigint not null check (rows > 0),
  -- xor of their nonces, and sum of the md5 of their texts: what src/log/archive-file.ts finds in the file again.
  nonces bigint not null,
  digest numeric not null,
  first_recorded_at timestamptz not null,
  last_recorded_at timestamptz not null,
  -- Where it was written, by the name of the machine and the absolute path. It is known by its bytes, wherever it is moved.
  host text not null,
  file text not null,
  bytes bigint not null,
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  -- The time that was given: older rows were to be moved.
  before timestamptz not null,
  archived_at timestamptz not null default clock_timestamp(),
  actor text not null default current_user,
  _xid xid8 not null default pg_current_xact_id(),
  -- Set when its rows are in the log again.
  restored_at timestamptz,
  restored_by text,
  restored_xid xid8
);
--> statement-breakpoint
create unique index on corrections._archive (sha256) where restored_at is null;
--> statement-breakpoint
comment on table corrections._archive is 'Log rows that were moved to files by emend archive, one row a file; in the log again where restored_at is set.';
--> statement-breakpoint
-- Rows and xor of nonces by blocks of 65,536 numbers: log and archive together are compared with the ledger by these.
create table corrections._archive_block (
  archive bigint not null references corrections._archive (number),
  block bigint not null,
  rows bigint not null,
  nonces bigint not null,
  primary key (archive, block)
);
--> statement-breakpoint
create index on corrections._archive_block (block);
--> statement-breakpoint
-- Of these numbers of a log, those whose rows are in a file. Multiranges are intersected as wholes: each list of numbers is read once.
create function corrections._archived(of_target text, asked int8multirange) returns setof bigint
language sql stable set search_path = ''
begin atomic
  select generate_series(lower(r.numbers), upper(r.numbers) - 1)
  from corrections._archive a
  cross join lateral unnest(a.ids * asked) as r (numbers)
  where a.target = of_target and a.restored_at is null;
end;
--> statement-breakpoint
-- Law 4: what was told is not taken back by changing the record of it.
create function corrections._refuse_change() returns trigger
language plpgsql
as $$
begin
  -- rows that this transaction has recorded as moved to a file; `_only_archived` looks at each
  if tg_op = 'DELETE'
    and exists (select from corrections._archive a where a.target = tg_table_name and a._xid = pg_current_xact_id_if_assigned())
  then
    return null;
  end if;
  raise exception '%.% is append-only: % is refused', tg_table_schema, tg_table_name, lower(tg_op)
    using errcode = '0A000',
      hint = case
        when tg_table_name like '\_%' then 'Insert another row: the later one counts.'
        else 'Insert another row: the newer correction wins. To say that nothing is there, insert one with _op = ''retract''.'
      end;
end;
$$;
--> statement-breakpoint
create trigger _append_only before update or delete or truncate on corrections._request
for each statement execute function corrections._refuse_change();
--> statement-breakpoint
create trigger _append_only before delete or truncate on corrections._archive
for each statement execute function corrections._refuse_change();
--> statement-breakpoint
-- A row leaves its log only in the transaction that records it as archived: whoever deletes, and by whatever statement.
create function corrections._refuse_removal() returns trigger
language plpgsql set search_path = ''
as $$
begin
  if not (select coalesce(range_agg(int8range(g._id, g._id, '[]')), '{}') from gone g)
      <@ (select coalesce(range_agg(a.ids), '{}')
          from corrections._archive a
          where a.target = tg_table_name and a._xid = pg_current_xact_id_if_assigned())
  then
    raise exception '%.% is append-only: delete is refused', tg_table_schema, tg_table_name
      using errcode = '0A000', hint = 'Rows are moved to files by emend archive, and not otherwise.';
  end if;
  return null;
end;
$$;
--> statement-breakpoint
-- Sealing fixes count and digest, so no row may come after them. `for key share` waits for the transaction that seals
-- (it holds the row `for update`) and reads the row as that left it; a foreign key alone lets rows slip in.
-- Once a statement: it is the same row for each of theirs. Security definer: a writer may add rows to a backfill, and may not
-- lock or change the backfill itself.
create function corrections._guard_backfill() returns trigger
language plpgsql security definer set search_path = ''
as $$
declare
  -- by a hash: an aggregate of distinct values sorts a name for each row
  names text[] := (select array_agg(a._backfill order by a._backfill) from (select distinct r._backfill from added r where r._backfill is not null) as a);
  of_name text;
  closed_at timestamptz;
  targets text[];
begin
  -- null of a live correction; the order is the same for everybody who locks several
  foreach of_name in array coalesce(names, '{}') loop
    select b.closed_at, b.targets into closed_at, targets from corrections._backfill b where b.name = of_name for key share;
    if not found then
      raise exception 'there is no backfill "%"', of_name
        using errcode = 'EM002', hint = 'Open it first, or correct the name in _backfill. A live correction leaves _backfill out.';
    end if;
    -- rows that emend archive puts back from a file, in this transaction; no writer states an _id
    continue when closed_at is not null and not exists (
      select from added r
      where r._backfill = of_name and not exists (
        select from corrections._archive a
        where a.target = tg_table_name and a.restored_xid = pg_current_xact_id_if_assigned() and a.ids @> r._id
      )
    );
    if closed_at is not null then
      raise exception 'backfill "%" was closed at %: no row can be added', of_name, closed_at
        using errcode = 'EM002', hint = 'Put the rows into a new backfill.';
    end if;
    -- seal counts the logs of its targets and no other
    if tg_table_name <> all (targets) then
      raise exception 'backfill "%" is not of target %', of_name, tg_table_name
        using errcode = 'EM002', hint = 'Its targets were stated when it was opened: ' || array_to_string(targets, ', ') || '.';
    end if;
  end loop;
  return null;
end;
$$;
--> statement-breakpoint
-- The SDK sends rows as arrays of texts. With array_nulls off a null in them is read as the text NULL (law 9).
create function corrections._require_array_nulls() returns boolean
language plpgsql stable set search_path = ''
as $$
begin
  if not current_setting('array_nulls')::boolean then
    raise exception 'array_nulls is off in this session: nulls would be written as the text NULL'
      using errcode = '55000', hint = 'Run: set array_nulls = on. It is on unless a database, a role or a session turns it off.';
  end if;
  return true;
end;
$$;
