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
comment on function corrections.forget_backfill is 'Takes an open backfill away that has no rows and of which nothing was asked, so that its name is free. False: it has some, and stays.';
--> statement-breakpoint
revoke execute on function corrections.forget_backfill(text) from public;
--> statement-breakpoint
-- As before; the hint names the command too.
create or replace function corrections._lock_backfill(of_name text) returns corrections._backfill
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
