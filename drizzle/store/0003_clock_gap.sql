-- Law 4 after a restore. A store that was put back to an older state merges what it lost once more, at later times: what it
-- answered about the time in between cannot be answered again.
alter table emend.clock add column server text;
--> statement-breakpoint
comment on column emend.clock.server is 'System identifier and timeline of the server that the clock ran on last: another one means a restore or a failover.';
--> statement-breakpoint
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
create or replace function emend.require_known(known_at timestamptz, of_target text) returns boolean
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
