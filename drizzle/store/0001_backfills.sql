-- Backfills, as far as this store has come with them. What was asked of them stands in the source (corrections._request);
-- a request that has been carried out stands here, in the transaction that did it.

create table emend.backfill (
  name text primary key,
  targets text[] not null,
  -- Of each target the valid period and the key filter that the rows must stay within, as its author stated them.
  boundary jsonb not null,
  logic_version text,
  reason text,
  origin jsonb not null,
  -- The author's own checks and thresholds.
  checks jsonb not null,
  state text not null default 'open'
    check (state in ('open', 'sealed', 'staged', 'checked', 'promoted', 'reverted', 'abandoned')),
  -- Of each target the rows and the digest that were sealed: what has to be staged, exactly.
  sealed jsonb,
  -- The promote that was asked for and is not done: its request, its accepted checks, from when on.
  wish jsonb,
  -- Why it does not go on; null while all is well.
  problem text,
  -- The time of belief that the checks looked at: what was told of its keys since is not in them.
  checked_at timestamptz,
  -- K of the promote: the backfill was believed from then on.
  told_at timestamptz,
  -- K of the revert: until then.
  reverted_at timestamptz,
  opened_at timestamptz not null,
  updated_at timestamptz not null default clock_timestamp()
);
--> statement-breakpoint
comment on table emend.backfill is 'Named batches of corrections that become visible all at once, or never: their state in this store.';
--> statement-breakpoint
-- Law 6 for requests: one that is here has been carried out, and a second delivery changes nothing.
create table emend.backfill_request (
  _id bigint primary key,
  backfill text,
  request text not null,
  details jsonb not null,
  actor text,
  reason text,
  asked_at timestamptz not null,
  done_at timestamptz not null default clock_timestamp(),
  outcome text not null
);
--> statement-breakpoint
comment on table emend.backfill_request is 'The requests that were carried out, each with its outcome.';
--> statement-breakpoint
-- Every transition, with who, when and why. Insert only.
create table emend.backfill_event (
  backfill text not null references emend.backfill (name),
  state text not null,
  at timestamptz not null default clock_timestamp(),
  actor text,
  reason text,
  request bigint
);
--> statement-breakpoint
create index backfill_event_backfill on emend.backfill_event (backfill, at);
--> statement-breakpoint
-- The checks of a backfill, as they were found last: before the promote, and again inside its transaction.
create table emend.backfill_check (
  backfill text not null references emend.backfill (name),
  target text not null,
  name text not null,
  figure text not null,
  threshold text not null,
  verdict text not null check (verdict in ('pass', 'fail', 'note')),
  -- Why a failing check was accepted, by name.
  accepted text,
  details jsonb not null default '{}',
  checked_at timestamptz not null default clock_timestamp(),
  primary key (backfill, target, name)
);
--> statement-breakpoint
-- The diff: of a key, over a part of valid time, the answer before and the answer after; null where there is none. The check
-- plans it. A promote makes what was planned, unless something was told of its keys since: then it is on record where both differ.
create table emend.backfill_change (
  backfill text not null references emend.backfill (name),
  target text not null,
  key jsonb not null,
  -- In the axis form; null for facts, which have no period.
  valid_from text,
  valid_to text,
  old jsonb,
  new jsonb,
  -- Null: planned, and made by the promote. Otherwise only the one of both.
  side text check (side in ('planned', 'made')),
  -- The corrections of its key that were told, or taken back, between check and promote.
  because bigint[]
);
--> statement-breakpoint
create index backfill_change_backfill on emend.backfill_change (backfill, target);
--> statement-breakpoint
-- The keys of a backfill that is being promoted or reverted, or of a rebuild. The locks of its keys would be the locks of all
-- keys, and stop every merge; this stops those of its keys. See src/merge/fence.ts.
create table emend.fence (
  target text not null,
  key_hash bigint not null,
  -- The backfill's name, or "rebuild of <target>".
  holder text not null,
  primary key (target, key_hash)
);
--> statement-breakpoint
-- Which fences stand: a few rows, looked at by every merge.
create table emend.fence_of (
  target text not null,
  holder text not null,
  raised_at timestamptz not null default clock_timestamp(),
  primary key (target, holder)
);
--> statement-breakpoint
-- For a merge that is sent in one go: EM003 tells it to look, after its locks, whether a fence is around one of its keys.
create function emend.require_no_fence(of_targets text[]) returns boolean
language plpgsql stable
as $$
begin
  if exists (select from emend.fence_of f where f.target = any (of_targets)) then
    raise exception 'keys of % are fenced', array_to_string(of_targets, ', ')
      using errcode = 'EM003', hint = 'The worker looks whether a key of its rows is among them.';
  end if;
  return true;
end;
$$;
--> statement-breakpoint
-- What a revert takes back.
create index ledger_recent_backfill on emend.ledger_recent (_backfill) where _backfill is not null;
