import type { ClientBase } from 'pg';
import { qualified } from '../db/identifier.ts';

/** A type that is not part of Postgres. */
export interface TypeInfo {
  readonly schema: string;
  readonly name: string;
  /** The extension that brings it, or null. */
  readonly extension: string | null;
  /** The statement that makes it, without the labels of an enum; null for kinds that only code can make. */
  readonly definition: string | null;
  readonly labels: readonly string[] | null;
}

/** Types of the columns, and the types that these are made of; each after those that it needs. */
export async function readUsedTypes(
  client: ClientBase,
  schema: string,
  table: string,
  columns: readonly string[],
): Promise<TypeInfo[]> {
  const { rows } = await client.query<{ oid: string }>(
    `with recursive used (oid, depth) as (
       select a.atttypid, 0
       from pg_attribute a
       where a.attrelid = to_regclass($1) and a.attname = any ($2::text[]) and not a.attisdropped
       union
       select part.oid, u.depth + 1
       from used u
       join pg_type t on t.oid = u.oid
       join pg_namespace n on n.oid = t.typnamespace and n.nspname not in ('pg_catalog', 'information_schema')
       cross join lateral (
         select t.typbasetype where t.typtype = 'd'
         union all
         select t.typelem where t.typelem <> 0 and t.typcategory = 'A'
         union all
         select r.rngtypid from pg_range r where r.rngmultitypid = t.oid
         union all
         select r.rngsubtype from pg_range r where r.rngtypid = t.oid
         union all
         select a.atttypid
         from pg_attribute a
         where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
       ) as part (oid)
     )
     select u.oid::text as oid
     from used u
     group by u.oid
     order by max(u.depth) desc, u.oid`,
    [qualified(schema, table), columns],
  );
  return readTypes(
    client,
    rows.map(({ oid }) => oid),
  );
}

/** Those of the types that exist in another database, by their quoted names. */
export async function findTypes(
  client: ClientBase,
  types: readonly TypeInfo[],
): Promise<Map<string, TypeInfo>> {
  if (types.length === 0) return new Map();
  const { rows } = await client.query<{ oid: string }>(
    `select t.oid::text as oid
     from unnest($1::text[], $2::text[]) as wanted (schema, name)
     join pg_namespace n on n.nspname = wanted.schema
     join pg_type t on t.typnamespace = n.oid and t.typname = wanted.name`,
    [types.map((type) => type.schema), types.map((type) => type.name)],
  );
  const found = await readTypes(
    client,
    rows.map(({ oid }) => oid),
  );
  return new Map(found.map((type) => [qualified(type.schema, type.name), type]));
}

/** Describes types in the order asked for. Arrays and multiranges come with what they are made of. */
async function readTypes(client: ClientBase, oids: readonly string[]): Promise<TypeInfo[]> {
  const { rows } = await client.query<{ info: string }>(
    `select jsonb_build_object(
       'schema', n.nspname,
       'name', t.typname,
       'extension', e.extname,
       'definition', case when e.extname is null then
         case t.typtype
           when 'e' then format('create type %I.%I as enum', n.nspname, t.typname)
           when 'd' then format('create domain %I.%I as %s', n.nspname, t.typname, domain.body)
           when 'c' then format('create type %I.%I as (%s)', n.nspname, t.typname, composite.body)
           when 'r' then format('create type %I.%I as range (%s)', n.nspname, t.typname, span.body)
         end
       end,
       'labels', case when t.typtype = 'e' then
         (select jsonb_agg(l.enumlabel order by l.enumsortorder) from pg_enum l where l.enumtypid = t.oid)
       end
     )::text as info
     from unnest($1::oid[]) with ordinality as asked (oid, place)
     join pg_type t on t.oid = asked.oid
     join pg_namespace n on n.oid = t.typnamespace
     left join pg_depend d
       on d.classid = 'pg_type'::regclass and d.objid = t.oid and d.deptype = 'e' and d.refclassid = 'pg_extension'::regclass
     left join pg_extension e on e.oid = d.refobjid
     left join pg_type base on base.oid = t.typbasetype
     left join lateral (
       select concat_ws(' ',
         format_type(t.typbasetype, t.typtypmod),
         case when t.typcollation <> base.typcollation then 'collate ' || t.typcollation::regcollation::text end,
         'default ' || t.typdefault,
         case when t.typnotnull then 'not null' end,
         (select string_agg(format('constraint %I %s', c.conname, pg_get_constraintdef(c.oid)), ' ' order by c.conname)
          from pg_constraint c where c.contypid = t.oid and c.contype = 'c')) as body
     ) as domain on t.typtype = 'd'
     left join lateral (
       -- a table's own row type is no type that could be made alone
       select string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum) as body
       from pg_class r
       join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
       where r.oid = t.typrelid and r.relkind = 'c'
       having count(*) > 0
     ) as composite on t.typtype = 'c'
     left join lateral (
       select concat_ws(', ',
         'subtype = ' || format_type(r.rngsubtype, null),
         'subtype_opclass = ' || (
           select format('%I.%I', on_.nspname, oc.opcname)
           from pg_opclass oc join pg_namespace on_ on on_.oid = oc.opcnamespace
           where oc.oid = r.rngsubopc and not oc.opcdefault),
         'collation = ' || nullif(nullif(r.rngcollation, 0), sub.typcollation)::regcollation::text,
         'canonical = ' || nullif(r.rngcanonical::oid, 0)::regproc::text,
         'subtype_diff = ' || nullif(r.rngsubdiff::oid, 0)::regproc::text,
         'multirange_type_name = ' || format('%I.%I', mn.nspname, mt.typname)) as body
       from pg_range r
       join pg_type sub on sub.oid = r.rngsubtype
       join pg_type mt on mt.oid = r.rngmultitypid
       join pg_namespace mn on mn.oid = mt.typnamespace
       where r.rngtypid = t.oid
     ) as span on t.typtype = 'r'
     where n.nspname not in ('pg_catalog', 'information_schema')
       and t.typtype <> 'm'
       and not (t.typcategory = 'A' and t.typelem <> 0)
     order by asked.place`,
    [oids],
  );
  return rows.map((row) => JSON.parse(row.info) as TypeInfo);
}
