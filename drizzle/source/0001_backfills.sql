-- What is asked of a backfill, as functions: the rules stand here alone, for plain SQL, the SDK and the command line alike.
-- Security definer: a writer may ask, and may not write the control tables. Every refusal is EM002, with what to do as its hint.

-- Who calls. Inside `security definer` current_user is the owner of the function; the setting is still the caller's.
create function corrections._caller() returns name
language sql stable set search_path = ''
return coalesce(nullif(current_setting('role'), 'none'), session_user)::name;
--> statement-breakpoint
-- Waits for the transactions that add rows to it, and for others that ask something of it.
create function corrections._lock_backfill(of_name text) returns corrections._backfill
language plpgsql set search_path = ''
as $$
declare
  found_one corrections._backfill;
begin
  select b.* into found_one from corrections._backfill b where b.name = of_name for update;
  if not found then
    raise exception 'there is no backfill "%"', of_name
      using errcode = 'EM002', hint = 'See emend backfill list (in SQL: corrections._backfill_state) for those there are, or open it first.';
  end if;
  if found_one.kind = 'import' then
    raise exception '"%" is an import of known history, not a backfill', of_name
      using errcode = 'EM002', hint = 'emend import carries it out.';
  end if;
  return found_one;
end;
$$;
--> statement-breakpoint
create function corrections._was_asked(of_name text, what text) returns bigint
language sql stable set search_path = ''
return (select max(r._id) from corrections._request r where r.backfill = of_name and r.request = what);
--> statement-breakpoint
create function corrections._ask(of_name text, what text, why text, more jsonb default '{}') returns bigint
language sql volatile set search_path = ''
begin atomic
  insert into corrections._request (backfill, request, details, _reason, _actor)
  values (of_name, what, more, why, corrections._caller())
  returning _id;
end;
--> statement-breakpoint
create function corrections._require_reason(what text, why text) returns void
language plpgsql set search_path = ''
as $$
begin
  if why is null or why !~ '\S' then
    raise exception 'a backfill is not % without a reason', what
      using errcode = 'EM002', hint = 'Say why; it is kept for ever.';
  end if;
end;
$$;
--> statement-breakpoint
-- SQL of the author runs in the store with the rights of emend's workers, which a writer of corrections need not have.
create function corrections._require_owner(what text) returns void
language plpgsql set search_path = ''
as $$
declare
  owner oid := (select c.relowner from pg_class c where c.oid = 'corrections._backfill'::regclass);
begin
  if not pg_has_role(corrections._caller(), owner, 'usage') then
    raise exception '% of a backfill may be stated by the owner of emend''s tables only', what
      using errcode = 'EM002', hint = 'It is SQL that runs in the store. Have the backfill opened by a role that may run emend migrate.';
  end if;
end;
$$;
--> statement-breakpoint
create function corrections._check_targets(targets text[]) returns void
language plpgsql set search_path = ''
as $$
declare
  unknown text;
  known text;
begin
  if coalesce(cardinality(targets), 0) = 0 then
    raise exception 'a backfill has a target' using errcode = 'EM002', hint = 'Name the targets whose logs its rows go to.';
  end if;
  select t.name into unknown
  from unnest(targets) as t (name)
  where t.name is null or to_regprocedure(format('corrections.%I(text, bigint, bigint)', '_digest_' || t.name)) is null
  limit 1;
  if found then
    select string_agg(substr(p.proname, 9), ', ' order by p.proname) into known
    from pg_proc p
    where p.pronamespace = 'corrections'::regnamespace and p.proname ^@ '_digest_';
    raise exception 'there is no target "%"', unknown
      using errcode = 'EM002', hint = format('Run emend migrate if it is new. There are: %s.', coalesce(known, 'none'));
  end if;
  if cardinality(targets) > (select count(distinct t.name) from unnest(targets) as t (name)) then
    raise exception 'a target is named twice' using errcode = 'EM002', hint = 'Name each target once.';
  end if;
end;
$$;
--> statement-breakpoint
create function corrections._check_boundary(boundary jsonb, targets text[]) returns void
language plpgsql set search_path = ''
as $$
declare
  wrong text;
  shape constant text := 'It is {"<target>": {"from": "2026-09-01", "to": "2026-10-01", "where": "region = ''EU''"}}; each part may be left out.';
begin
  if jsonb_typeof(boundary) <> 'object' then
    raise exception 'the boundary is not an object' using errcode = 'EM002', hint = shape;
  end if;
  select b.target into wrong from jsonb_each(boundary) as b (target, part) where b.target <> all (targets) limit 1;
  if found then
    raise exception 'the boundary names "%", which is no target of this backfill', wrong using errcode = 'EM002', hint = shape;
  end if;
  select b.target into wrong
  from jsonb_each(boundary) as b (target, part)
  where jsonb_typeof(b.part) <> 'object'
    or exists (
      select from jsonb_each(case jsonb_typeof(b.part) when 'object' then b.part else '{}' end) as p (name, value)
      where p.name not in ('from', 'to', 'where') or jsonb_typeof(p.value) not in ('string', 'null')
    )
  limit 1;
  if found then
    raise exception 'the boundary of "%" cannot be read', wrong using errcode = 'EM002', hint = shape;
  end if;
end;
$$;
--> statement-breakpoint
create function corrections._check_statement(targets text[], reason text, logic_version text, boundary jsonb, origin jsonb, checks jsonb) returns void
language plpgsql set search_path = ''
as $$
begin
  perform corrections._require_reason('opened', reason);
  if logic_version is null or logic_version !~ '\S' then
    raise exception 'a backfill is not opened without the version of the logic that made its rows'
      using errcode = 'EM002', hint = 'Give the git commit, or whatever finds the program again that computed them.';
  end if;
  perform corrections._check_targets(targets);
  perform corrections._check_boundary(boundary, targets);
  if jsonb_typeof(checks) <> 'object' or jsonb_typeof(origin) <> 'object' then
    raise exception 'checks and origin of a backfill are objects' using errcode = 'EM002', hint = 'Give {} where there are none.';
  end if;
  if checks <> '{}' then
    perform corrections._require_owner('checks');
  end if;
  if jsonb_path_exists(boundary, '$.*."where" ? (@ != null)') then
    perform corrections._require_owner('a filter of keys');
  end if;
end;
$$;
--> statement-breakpoint
create function corrections.open_backfill(
  name text,
  targets text[],
  reason text,
  logic_version text,
  boundary jsonb default '{}',
  origin jsonb default '{}',
  checks jsonb default '{}'
) returns boolean
language plpgsql security definer set search_path = ''
as $$
#variable_conflict use_column
declare
  before corrections._backfill;
  other text;
begin
  if coalesce(open_backfill.name, '') !~ '^[a-z0-9][a-z0-9_.-]{0,99}$' then
    raise exception '"%" cannot be the name of a backfill', open_backfill.name
      using errcode = 'EM002', hint = 'Use a-z, 0-9, _, - and ., beginning with a letter or digit, up to 100: 2026-11-29-reprice.';
  end if;
  boundary := coalesce(boundary, '{}');
  origin := coalesce(origin, '{}');
  checks := coalesce(checks, '{}');
  perform corrections._check_statement(targets, reason, logic_version, boundary, origin, checks);

  insert into corrections._backfill (name, targets, reason, logic_version, boundary, origin, checks, actor)
  values (open_backfill.name, open_backfill.targets, open_backfill.reason, open_backfill.logic_version,
    open_backfill.boundary, open_backfill.origin, open_backfill.checks, corrections._caller())
  on conflict (name) do nothing;
  if found then
    return true;
  end if;

  -- opened before: the same again is done already, and anything else is another backfill
  select b.* into before from corrections._backfill b where b.name = open_backfill.name;
  select string_agg(d.what, ', ') into other
  from (values
    ('kind', before.kind <> 'backfill'),
    ('targets', before.targets <> open_backfill.targets),
    ('reason', before.reason is distinct from open_backfill.reason),
    ('logic version', before.logic_version is distinct from open_backfill.logic_version),
    ('boundary', before.boundary <> open_backfill.boundary),
    ('origin', before.origin - 'mended' <> open_backfill.origin),
    ('checks', before.checks <> open_backfill.checks)
  ) as d (what, differs)
  where d.differs;
  if other is not null then
    raise exception 'there is a backfill "%" already, with another %', before.name, other
      using errcode = 'EM002', hint = 'Give this one a name of its own.';
  end if;
  return false;
end;
$$;
--> statement-breakpoint
comment on function corrections.open_backfill is 'Opens a backfill: rows with its name in _backfill stay invisible until it is promoted. True: opened now; false: it was opened before, the same.';
--> statement-breakpoint
-- Asks for those rows of a log that no chunk asks for: written in plain SQL, or committed between the ids of a chunk after it
-- was counted. A chunk counts as good only while it holds what it says. Returns how many rows it asks for.
create function corrections._chunk_left_over(of_backfill text, of_target text, of_loader jsonb) returns bigint
language plpgsql set search_path = ''
as $$
declare
  asked bigint;
begin
  execute format(
    $sql$
    with chunk as materialized (
      select distinct (r.details ->> 'first')::bigint as first, (r.details ->> 'last')::bigint as last, (r.details ->> 'rows')::bigint as rows
      from corrections._request r
      where r.backfill = $1 and r.request = 'chunk' and r.details ->> 'target' = $2
    ),
    good as materialized (
      select c.first, c.last
      from chunk c
      cross join lateral (
        select count(*) as rows from corrections.%1$I l where l._backfill = $1 and l._id between c.first and c.last
      ) as there
      where there.rows = c.rows
    ),
    -- without a join: of a log that was filled a moment ago the planner knows nothing, and would take its rows for one
    marked as (
      select m._id, bool_or(m.is_asked) as is_asked
      from (
        select l._id, false as is_asked from corrections.%1$I l where l._backfill = $1
        union all
        select l._id, true
        from good g
        cross join lateral (
          select l._id from corrections.%1$I l where l._backfill = $1 and l._id between g.first and g.last
          offset 0
        ) as l
      ) as m
      group by m._id
    ),
    placed as (
      select m._id, not m.is_asked as is_left,
        row_number() over (order by m._id) - row_number() over (partition by m.is_asked order by m._id) as island
      from marked m
    ),
    -- no chunk reaches over rows that are asked for already
    cut as (
      select p._id, p.island, (row_number() over (partition by p.island order by p._id) - 1) / 5000 as part
      from placed p
      where p.is_left
    ),
    added as (
      insert into corrections._request (backfill, request, details, _actor)
      select $1, 'chunk', jsonb_build_object('target', $2, 'first', min(c._id)::text, 'last', max(c._id)::text, 'rows', count(*), 'loader', $3),
        corrections._caller()
      from cut c
      group by c.island, c.part
      order by min(c._id)
      returning (details ->> 'rows')::bigint as rows
    )
    select coalesce(sum(a.rows), 0) from added a
    $sql$,
    of_target)
  into asked using of_backfill, of_target, of_loader;
  return asked;
end;
$$;
--> statement-breakpoint
-- What a backfill has in a log, where its chunks say it together: each row is in one of them, and the digests are of the columns
-- that a digest has now. No row: the log has to be read. Rows never leave a chunk, so that where their sum is the whole, each
-- chunk still holds exactly what it said.
create function corrections._held_by_chunks(of_backfill text, of_target text) returns table (rows bigint, digest numeric, columns text[])
language plpgsql set search_path = ''
as $$
begin
  return query execute format(
    $sql$
    with chunk as (
      select distinct (r.details ->> 'first')::bigint as first, (r.details ->> 'last')::bigint as last,
        (r.details ->> 'rows')::bigint as rows, (r.details ->> 'digest')::numeric as digest, r.details -> 'columns' as columns
      from corrections._request r
      where r.backfill = $1 and r.request = 'chunk' and r.details ->> 'target' = $2
    ),
    placed as (
      select c.*, c.first > lag(c.last) over (order by c.first, c.last) as is_apart from chunk c
    ),
    said as (
      select sum(p.rows)::bigint as rows, sum(p.digest) as digest,
        bool_and(coalesce(p.is_apart, true) and p.digest is not null and p.columns is not distinct from to_jsonb(now.columns)) as is_good,
        now.columns
      from corrections.%2$I($1, 0, 0) now
      left join placed p on true
      group by now.columns
    )
    select s.rows, s.digest, s.columns
    from said s
    where s.is_good and s.rows = (select count(*) from corrections.%1$I l where l._backfill = $1)
    $sql$,
    of_target, '_digest_' || of_target)
  using of_backfill, of_target;
end;
$$;
--> statement-breakpoint
create function corrections.chunk_backfill(
  name text,
  target text,
  first bigint default null,
  last bigint default null,
  loader jsonb default '{}'
) returns bigint
language plpgsql security definer set search_path = ''
as $$
#variable_conflict use_column
declare
  before corrections._backfill;
  found_rows bigint;
  found_digest numeric;
  found_columns text[];
begin
  -- held by every loader at once, and waited for by seal
  select b.* into before from corrections._backfill b where b.name = chunk_backfill.name for key share;
  if not found or before.closed_at is not null or target is null or target <> all (before.targets) then
    raise exception 'backfill "%" does not take rows of %', chunk_backfill.name, target
      using errcode = 'EM002', hint = 'It has to be open, and to be of this target: see corrections._backfill_state.';
  end if;
  if first is null then
    return corrections._chunk_left_over(chunk_backfill.name, target, loader);
  end if;
  -- digested here, beside the loading, so that seal need not read the log again
  execute format('select d.rows, d.digest, d.columns from corrections.%I($1, $2, $3) d', '_digest_' || target)
    into found_rows, found_digest, found_columns using chunk_backfill.name, first, last;
  perform corrections._ask(chunk_backfill.name, 'chunk', null, jsonb_build_object('target', target, 'first', first::text, 'last', last::text,
    'rows', found_rows, 'digest', found_digest::text, 'columns', found_columns, 'loader', loader));
  return found_rows;
end;
$$;
--> statement-breakpoint
comment on function corrections.chunk_backfill is 'Asks for rows of an open backfill to be staged already: those with an _id from first to last, or all that were not asked for. Optional, since seal asks for the rest. Returns their number.';
--> statement-breakpoint
create function corrections.seal_backfill(name text, reason text default null) returns bigint
language plpgsql security definer set search_path = ''
as $$
#variable_conflict use_column
declare
  before corrections._backfill;
  of_target text;
  found_rows bigint;
  found_digest numeric;
  found_columns text[];
  counted jsonb := '{}';
  all_rows bigint := 0;
begin
  -- with the snapshot of the transaction the count would leave out what a loader committed while this waited
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'a backfill is not sealed under the isolation level %', current_setting('transaction_isolation')
      using errcode = 'EM002', hint = 'Seal it in a READ COMMITTED transaction.';
  end if;
  before := corrections._lock_backfill(seal_backfill.name);
  if before.sealed is not null then
    return corrections._was_asked(before.name, 'seal');
  end if;
  if before.closed_at is not null then
    raise exception 'backfill "%" was abandoned at %', before.name, before.closed_at
      using errcode = 'EM002', hint = 'Open a new one.';
  end if;
  if reason is not null then
    perform corrections._require_reason('sealed', seal_backfill.reason);
  end if;
  -- later statements than the lock: they see what the loaders have committed that it waited for
  foreach of_target in array before.targets loop
    select h.rows, h.digest, h.columns into found_rows, found_digest, found_columns
    from corrections._held_by_chunks(before.name, of_target) h;
    if not found then
      execute format('select d.rows, d.digest, d.columns from corrections.%I($1) d', '_digest_' || of_target)
        into found_rows, found_digest, found_columns using before.name;
      perform corrections._chunk_left_over(before.name, of_target, '{}');
    end if;
    counted := counted || jsonb_build_object(of_target, jsonb_build_object('rows', found_rows, 'digest', found_digest::text, 'columns', found_columns));
    all_rows := all_rows + found_rows;
  end loop;
  if all_rows = 0 then
    raise exception 'backfill "%" has no rows', before.name
      using errcode = 'EM002', hint = 'Load them first, or abandon it.';
  end if;
  update corrections._backfill b set closed_at = clock_timestamp(), sealed = counted where b.name = before.name;
  return corrections._ask(before.name, 'seal', seal_backfill.reason);
end;
$$;
--> statement-breakpoint
comment on function corrections.seal_backfill is 'Ends the loading: waits for open transactions that add rows, counts, and lets no row in any more. Sealed before: changes nothing. Returns the _id of the request.';
--> statement-breakpoint
create function corrections.promote_backfill(
  name text,
  reason text default null,
  accept jsonb default '{}',
  at timestamptz default null,
  ignore_window boolean default false
) returns bigint
language plpgsql security definer set search_path = ''
as $$
#variable_conflict use_column
declare
  before corrections._backfill := corrections._lock_backfill(promote_backfill.name);
  unsaid text;
begin
  if before.sealed is null then
    raise exception 'backfill "%" is not sealed', before.name
      using errcode = 'EM002', hint = case when before.closed_at is null then 'Seal it first.' else 'It was abandoned; open a new one.' end;
  end if;
  if corrections._was_asked(before.name, 'revert') is not null then
    raise exception 'backfill "%" was asked to be reverted', before.name
      using errcode = 'EM002', hint = 'That is final: load its rows into a new backfill.';
  end if;
  if corrections._was_asked(before.name, 'abandon') is not null then
    raise exception 'backfill "%" was asked to be abandoned', before.name
      using errcode = 'EM002', hint = 'No promote is asked for after that: load its rows into a new backfill.';
  end if;
  if reason is not null or coalesce(ignore_window, false) then
    perform corrections._require_reason('promoted', promote_backfill.reason);
  end if;
  if jsonb_typeof(coalesce(accept, '{}')) <> 'object' then
    raise exception 'what is accepted is not an object' using errcode = 'EM002', hint = 'Give {"<check>": "<reason>"}.';
  end if;
  select a.name into unsaid
  from jsonb_each(coalesce(accept, '{}')) as a (name, why)
  where jsonb_typeof(a.why) <> 'string' or (a.why #>> '{}') !~ '\S'
  limit 1;
  if found then
    raise exception 'the check "%" is not accepted without a reason', unsaid
      using errcode = 'EM002', hint = 'Give {"<check>": "<reason>"}; the reason is kept for ever.';
  end if;
  if not isfinite(at) then
    raise exception 'a backfill is not promoted at %', at using errcode = 'EM002', hint = 'Give a time, or leave it out.';
  end if;
  -- asked before: asked again, since the store may have refused it, and what it checks has changed
  return corrections._ask(before.name, 'promote', promote_backfill.reason,
    jsonb_build_object('accept', coalesce(accept, '{}'), 'at', at, 'ignore_window', coalesce(ignore_window, false)));
end;
$$;
--> statement-breakpoint
comment on function corrections.promote_backfill is 'Asks for a sealed backfill to become visible, all at once, if its checks pass or are accepted: {"<check>": "<reason>"}. Returns the _id of the request; what came of it stands in emend.backfill in the store.';
--> statement-breakpoint
create function corrections.revert_backfill(name text, reason text) returns bigint
language plpgsql security definer set search_path = ''
as $$
#variable_conflict use_column
declare
  before corrections._backfill := corrections._lock_backfill(revert_backfill.name);
  asked bigint := corrections._was_asked(before.name, 'revert');
begin
  if asked is not null then
    return asked;
  end if;
  perform corrections._require_reason('reverted', revert_backfill.reason);
  if corrections._was_asked(before.name, 'promote') is null then
    raise exception 'backfill "%" was never promoted', before.name
      using errcode = 'EM002', hint = 'Nothing of it is visible. To throw it away, abandon it.';
  end if;
  return corrections._ask(before.name, 'revert', revert_backfill.reason);
end;
$$;
--> statement-breakpoint
comment on function corrections.revert_backfill is 'Asks for a promoted backfill to be as if it had never been promoted; later corrections stay. Asked before: changes nothing. Returns the _id of the request.';
--> statement-breakpoint
create function corrections.abandon_backfill(name text, reason text) returns bigint
language plpgsql security definer set search_path = ''
as $$
#variable_conflict use_column
declare
  before corrections._backfill := corrections._lock_backfill(abandon_backfill.name);
  asked bigint := corrections._was_asked(before.name, 'abandon');
begin
  -- first: what was answered before the revert does not hold any more. Whether it had been promoted the store alone knows.
  if corrections._was_asked(before.name, 'revert') is not null then
    raise exception 'backfill "%" was asked to be reverted', before.name
      using errcode = 'EM002', hint = 'Nothing is left of it to abandon: promoted, it is taken back; not promoted, it is abandoned by that.';
  end if;
  if asked is not null then
    return asked;
  end if;
  perform corrections._require_reason('abandoned', abandon_backfill.reason);
  -- a promote that was asked for may have been refused by the store, which alone knows: it refuses this if it was not
  update corrections._backfill b set closed_at = coalesce(b.closed_at, clock_timestamp()) where b.name = before.name;
  return corrections._ask(before.name, 'abandon', abandon_backfill.reason);
end;
$$;
--> statement-breakpoint
comment on function corrections.abandon_backfill is 'Asks for a backfill that is not promoted to be thrown away unseen. Asked before: changes nothing. Returns the _id of the request.';
--> statement-breakpoint
revoke execute on function
  corrections._lock_backfill(text), corrections._was_asked(text, text), corrections._ask(text, text, text, jsonb),
  corrections._chunk_left_over(text, text, jsonb), corrections._held_by_chunks(text, text),
  corrections.open_backfill(text, text[], text, text, jsonb, jsonb, jsonb),
  corrections.chunk_backfill(text, text, bigint, bigint, jsonb), corrections.seal_backfill(text, text),
  corrections.promote_backfill(text, text, jsonb, timestamptz, boolean), corrections.revert_backfill(text, text),
  corrections.abandon_backfill(text, text)
from public;
--> statement-breakpoint
-- An opened backfill that has taken nothing says nothing: who opened it with a mistake may take it away and use its name again.
-- `for update` waits for those that add rows; only later statements of READ COMMITTED see what they committed.
create function corrections.forget_backfill(name text) returns boolean
language plpgsql security definer set search_path = ''
as $$
#variable_conflict use_column
declare
  before corrections._backfill;
  of_target text;
  has_rows boolean;
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'a backfill is not forgotten under the isolation level %', current_setting('transaction_isolation')
      using errcode = 'EM002', hint = 'Do it in a READ COMMITTED transaction.';
  end if;
  before := corrections._lock_backfill(forget_backfill.name);
  if before.closed_at is not null or exists (select from corrections._request r where r.backfill = before.name) then
    return false;
  end if;
  foreach of_target in array before.targets loop
    execute format('select exists (select from corrections.%I l where l._backfill = $1)', of_target)
      into has_rows using before.name;
    if has_rows then
      return false;
    end if;
  end loop;
  delete from corrections._backfill b where b.name = before.name;
  return true;
end;
$$;
--> statement-breakpoint
-- What an open backfill states, stated anew: its file was mended after a part of its rows was loaded. What it stated before stays
-- on record, in origin: each with who changed it, and when. Its targets stay: seal counts their logs.
create function corrections.restate_backfill(
  name text,
  targets text[],
  reason text,
  logic_version text,
  boundary jsonb default '{}',
  origin jsonb default '{}',
  checks jsonb default '{}'
) returns boolean
language plpgsql security definer set search_path = ''
as $$
#variable_conflict use_column
declare
  before corrections._backfill := corrections._lock_backfill(restate_backfill.name);
begin
  if before.closed_at is not null then
    raise exception 'backfill "%" was closed at %: what it states is final', before.name, before.closed_at
      using errcode = 'EM002', hint = 'Give what was changed a name of its own.';
  end if;
  if before.targets <> restate_backfill.targets then
    raise exception 'backfill "%" is of other targets: %', before.name, array_to_string(before.targets, ', ')
      using errcode = 'EM002', hint = 'Abandon it, and give the one of other targets a name of its own.';
  end if;
  perform corrections._check_statement(targets, reason, logic_version, boundary, origin, checks);
  if (before.reason, before.logic_version, before.boundary, before.origin - 'mended', before.checks)
    is not distinct from (reason, logic_version, boundary, origin, checks)
  then
    return false;
  end if;
  update corrections._backfill b
  set reason = restate_backfill.reason, logic_version = restate_backfill.logic_version,
    boundary = restate_backfill.boundary, checks = restate_backfill.checks,
    origin = restate_backfill.origin || jsonb_build_object('mended', coalesce(before.origin -> 'mended', '[]') || jsonb_build_array(
      (to_jsonb(before) - array['name', 'kind', 'targets', 'actor', 'opened_at', 'closed_at', 'sealed'])
        || jsonb_build_object('origin', before.origin - 'mended', 'mended_at', clock_timestamp(), 'mended_by', corrections._caller())
    ))
  where b.name = before.name;
  return true;
end;
$$;
--> statement-breakpoint
comment on function corrections.restate_backfill is 'States an open backfill anew, of the same targets: its file was mended. What it stated before stays in origin. False: it states the same.';
--> statement-breakpoint
revoke execute on function corrections.restate_backfill(text, text[], text, text, jsonb, jsonb, jsonb) from public;
--> statement-breakpoint
comment on function corrections.forget_backfill is 'Takes an open backfill away that has no rows and of which nothing was asked, so that its name is free. False: it has some, and stays.';
--> statement-breakpoint
revoke execute on function corrections.forget_backfill(text) from public;
