import type { ClientBase } from 'pg';

/** What the catalogue of a server says about one table. Positions in constraints are already column names. */
export interface TableInfo {
  readonly schema: string;
  readonly name: string;
  /** `r` table, `p` partitioned table; everything else cannot be a target. */
  readonly kind: string;
  readonly columns: readonly ColumnInfo[];
  readonly constraints: readonly ConstraintInfo[];
  /** Unique indexes, with or without a constraint. */
  readonly uniqueIndexes: readonly IndexInfo[];
}

export interface ColumnInfo {
  readonly name: string;
  readonly type: string;
  readonly baseType: string;
  /** The schema of the type's own `=`, or null where it has none. */
  readonly equalsSchema: string | null;
  /** Whether the type has a default hash operator class: what a lock bucket is computed with. */
  readonly hashable: boolean;
  readonly nullable: boolean;
  readonly defaultSql: string | null;
  /** Generated, identity or serial: the store fills it in by itself. */
  readonly storeOnly: boolean;
}

export interface ConstraintInfo {
  readonly name: string;
  /** `p` primary key, `u` unique, `c` check, `f` foreign key, `x` exclusion. */
  readonly type: string;
  readonly columns: readonly string[];
  readonly definition: string;
  /** The expression of a check, else null. */
  readonly expression: string | null;
  /** Whether the constraint calls functions that are not part of Postgres. */
  readonly usesFunctions: boolean;
}

export interface IndexInfo {
  readonly name: string;
  /** Null entries are expressions. */
  readonly columns: readonly (string | null)[];
  readonly partial: boolean;
}

/** Reads one table, or null when there is none of that name. Run it with a pinned session: type names depend on search_path. */
export async function readTable(client: ClientBase, schema: string, name: string): Promise<TableInfo | null> {
  const found = await client.query<{ oid: string; relkind: string }>(
    `select c.oid::text as oid, c.relkind::text as relkind
     from pg_class c
     join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = $1 and c.relname = $2`,
    [schema, name],
  );
  const table = found.rows[0];
  if (!table) return null;
  return {
    schema,
    name,
    kind: table.relkind,
    columns: await readColumns(client, table.oid),
    constraints: await readConstraints(client, table.oid),
    uniqueIndexes: await readUniqueIndexes(client, table.oid),
  };
}

async function readColumns(client: ClientBase, oid: string): Promise<ColumnInfo[]> {
  const { rows } = await client.query<{ info: string }>(
    `with recursive class (type, by_hash, by_btree) as materialized (
       select oc.opcintype, bool_or(am.amname = 'hash'), bool_or(am.amname = 'btree')
       from pg_opclass oc
       join pg_am am on am.oid = oc.opcmethod
       where oc.opcdefault
       group by oc.opcintype
     ),
     -- an array, a range or a composite compares only as far as all that it is made of does
     part (whole, type) as (
       select a.atttypid, a.atttypid
       from pg_attribute a
       where a.attrelid = $1::oid and a.attnum > 0 and not a.attisdropped
       union
       select p.whole, inner_type.oid
       from part p
       join pg_type t on t.oid = p.type
       cross join lateral (
         select t.typbasetype as oid where t.typtype = 'd'
         union all
         select t.typelem where t.typcategory = 'A' and t.typelem <> 0
         union all
         select r.rngsubtype from pg_range r where t.oid in (r.rngtypid, r.rngmultitypid)
         union all
         select a.atttypid
         from pg_attribute a
         where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
       ) as inner_type
     ),
     -- a type without an operator class may have an = all the same, which means something else: of boxes, the same area
     usable (whole, by_hash, by_btree) as (
       select p.whole,
         bool_and((own.by_hash or shared.by_hash) is true),
         bool_and((own.by_btree or shared.by_btree) is true)
       from part p
       join pg_type t on t.oid = p.type and t.typtype <> 'd'
       left join class own on own.type = t.oid
       left join class shared on shared.type = case
         when t.typtype = 'e' then 'anyenum'::regtype
         when t.typtype = 'r' then 'anyrange'::regtype
         when t.typtype = 'm' then 'anymultirange'::regtype
         when t.typtype = 'c' then 'record'::regtype
         when t.oid = 'varchar'::regtype then 'text'::regtype
         when t.oid = 'cidr'::regtype then 'inet'::regtype
         when t.typcategory = 'A' and t.typelem <> 0 then 'anyarray'::regtype
       end
       group by p.whole
     )
     select jsonb_build_object(
       'name', a.attname,
       'type', format_type(a.atttypid, a.atttypmod),
       'baseType', format_type(base.oid, -1),
       'equalsSchema', case when usable.by_hash or usable.by_btree then coalesce(equality.schema, 'pg_catalog') end,
       'hashable', usable.by_hash,
       'nullable', not a.attnotnull and t.typnotnull is not true,
       'defaultSql', case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end,
       'storeOnly', a.attgenerated <> '' or a.attidentity <> ''
                    or coalesce(pg_get_expr(d.adbin, d.adrelid) ~ '^nextval\\(', false)
     )::text as info
     from pg_attribute a
     join pg_type t on t.oid = a.atttypid
     left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     -- a domain compares, hashes and sorts as the type beneath it
     cross join lateral (
       with recursive base (oid, next) as (
         select t.oid, case when t.typtype = 'd' then t.typbasetype end
         union all
         select bt.oid, case when bt.typtype = 'd' then bt.typbasetype end
         from base join pg_type bt on bt.oid = base.next
       )
       select base.oid from base where base.next is null
     ) as base
     -- a type of an extension brings its own operator
     left join lateral (
       select n.nspname as schema
       from pg_operator o join pg_namespace n on n.oid = o.oprnamespace
       where o.oprname = '=' and o.oprleft = base.oid and o.oprright = base.oid
     ) as equality on true
     join usable on usable.whole = a.atttypid
     where a.attrelid = $1::oid and a.attnum > 0 and not a.attisdropped
     order by a.attnum`,
    [oid],
  );
  return rows.map((row) => JSON.parse(row.info) as ColumnInfo);
}

async function readConstraints(client: ClientBase, oid: string): Promise<ConstraintInfo[]> {
  const { rows } = await client.query<{ info: string }>(
    `select jsonb_build_object(
       'name', c.conname,
       'type', c.contype,
       'columns', coalesce((
         select jsonb_agg(a.attname order by k.place)
         from unnest(c.conkey) with ordinality as k (attnum, place)
         join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.attnum), '[]'),
       'definition', pg_get_constraintdef(c.oid),
       'expression', pg_get_expr(c.conbin, c.conrelid),
       'usesFunctions', exists (
         select from pg_depend dep
         where dep.classid = 'pg_constraint'::regclass and dep.objid = c.oid and dep.refclassid = 'pg_proc'::regclass)
     )::text as info
     from pg_constraint c
     where c.conrelid = $1::oid and c.contype in ('p', 'u', 'c', 'f', 'x')
     order by c.conname`,
    [oid],
  );
  return rows.map((row) => JSON.parse(row.info) as ConstraintInfo);
}

async function readUniqueIndexes(client: ClientBase, oid: string): Promise<IndexInfo[]> {
  const { rows } = await client.query<{ info: string }>(
    `select jsonb_build_object(
       'name', c.relname,
       'partial', i.indpred is not null,
       'columns', (
         select jsonb_agg(a.attname order by k.place)
         from unnest(i.indkey::int2[]) with ordinality as k (attnum, place)
         left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum and k.attnum > 0
         where k.place <= i.indnkeyatts)
     )::text as info
     from pg_index i
     join pg_class c on c.oid = i.indexrelid
     where i.indrelid = $1::oid and i.indisunique and i.indisvalid
     order by c.relname`,
    [oid],
  );
  return rows.map((row) => JSON.parse(row.info) as IndexInfo);
}
