/**
 * Values that a way through text may change: bounds, forms with several spellings, and texts that some layer could take for its own.
 * Types that a server lacks (xml, an extension) are left out by `corpusFor`.
 */
export interface CorpusColumn {
  readonly type: string;
  readonly values: readonly string[];
}

/** Made in the store; the migration has to bring them to the source. */
export const corpusTypes = `
  create type public.mood as enum ('ok', 'sad or not', 'it''s "fine", \\ {}');
  create domain public.percent as numeric(5, 2) check (value between 0 and 100);
  create domain public.words as text[] check (cardinality(value) < 10);
  create type public.spot as (name text, "at" numeric(20, 10), tags text[], doc json);
  create type public.route as (start public.spot, stops public.spot[]);
  create type public.float_range as range (subtype = float8);`;

const awkwardTexts = [
  '',
  ' ',
  'null',
  'NULL',
  '\\N',
  '\\',
  `quote ' double " back \\ slash`,
  'line\nbreak\r\ncarriage\rtab\tbell\u0007 escape\u001b',
  '\u{1f600}\u{1f468}\u200d\u{1f469}\u200d\u{1f467} e\u0301 \u00e9',
  '\ufeffa byte order mark',
  '\u2028\u2029\u0085\u00a0',
  '\uffff\ufffe\u{10ffff}',
  '\ufffd',
  '{"a":"\\u0000"}',
  '{a,NULL,"b"}',
  '$1 %s ${x} --; /* */',
  'x'.repeat(20_000),
];

const columns: readonly CorpusColumn[] = [
  { type: 'boolean', values: ['true', 'false'] },
  { type: 'smallint', values: ['-32768', '32767', '0'] },
  { type: 'integer', values: ['-2147483648', '2147483647'] },
  {
    type: 'bigint',
    values: ['-9223372036854775808', '9223372036854775807', '9007199254740993', '-9007199254740993'],
  },
  {
    type: 'numeric',
    values: [
      '1234567890123456789012345678901234567890.0123456789',
      '-0.0000000000000000000000000000000000000001',
      '1.0',
      '1.00',
      '1e-30',
      '1e400',
      'NaN',
      'Infinity',
      '-Infinity',
    ],
  },
  { type: 'numeric(10,2)', values: ['5.00', '-99999999.99'] },
  { type: 'numeric(40,20)', values: ['12345678901234567890.12345678901234567890'] },
  {
    type: 'real',
    values: [
      '3.4028235e+38',
      '-3.4028235e+38',
      '1e-45',
      '0.1',
      '-0',
      '16777217',
      'NaN',
      'Infinity',
      '-Infinity',
    ],
  },
  {
    type: 'double precision',
    values: [
      '1.7976931348623157e+308',
      '-1.7976931348623157e+308',
      '5e-324',
      '2.2250738585072014e-308',
      '0.1',
      '0.30000000000000004',
      '-0',
      '9007199254740993',
      'NaN',
      'Infinity',
      '-Infinity',
    ],
  },
  { type: 'text', values: awkwardTexts },
  { type: 'varchar', values: awkwardTexts.slice(0, 8) },
  { type: 'varchar(5)', values: ['', 'a', 'a    ', 'äöü\u{1f600}x'] },
  { type: 'char(5)', values: ['', 'ab', 'ab\u{1f600}', '     '] },
  { type: '"char"', values: ['a', '', '\\377'] },
  { type: 'name', values: ['a name', ''] },
  {
    type: 'bytea',
    values: ['\\x', '\\x00', '\\x00ff5c27220a0d09', '\\x5c7830', `\\x${'00ff'.repeat(5000)}`],
  },
  {
    type: 'json',
    values: [
      '{"b":1,  "a":1,"a":2}',
      '{"n": 12345678901234567890.12345678901234567890, "e": 1E400, "z": -0}',
      '{"nul": "\\u0000", "half": "\\ud83d"}',
      ' [1 , 2\n]\t',
      'null',
      '"text"',
    ],
  },
  {
    type: 'jsonb',
    values: [
      '{"b":1, "a":1,"a":2}',
      '{"n": 12345678901234567890.12345678901234567890, "one": 1.0, "more": 1.00, "z": -0}',
      '1e1000',
      'null',
      '"\\u00e9 \\ud83d\\ude00 \\\\ \\" \\n"',
      '[]',
      '{"": {"": []}}',
    ],
  },
  { type: 'jsonpath', values: ['$.a[*] ? (@ > 1)', 'strict $."it\'s"'] },
  { type: 'uuid', values: ['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ffffffff-ffff-ffff-ffff-ffffffffffff'] },
  {
    type: 'date',
    values: ['infinity', '-infinity', '4713-01-01 BC', '5874897-12-31', '0001-01-01', '2024-02-29'],
  },
  {
    type: 'timestamp',
    values: [
      'infinity',
      '-infinity',
      '4713-01-01 00:00:00 BC',
      '0044-03-15 12:00:00.000001 BC',
      '294276-12-31 23:59:59.999999',
      '2026-03-29 02:30:00',
    ],
  },
  {
    type: 'timestamptz',
    values: [
      'infinity',
      '-infinity',
      '4713-01-01 00:00:00+00 BC',
      '294276-12-31 23:59:59.999999+00',
      '2026-09-10 12:00:00.123456+02',
      '1890-01-01 00:00:00+05:41:16',
      '2026-10-25 00:30:00+00',
    ],
  },
  { type: 'timestamptz(3)', values: ['2026-09-10 12:00:00.1235+02'] },
  { type: 'time', values: ['24:00:00', '23:59:59.999999', '00:00:00'] },
  { type: 'timetz', values: ['24:00:00+00', '23:59:59.999999-15:59', '12:00:00+05:41:16'] },
  {
    type: 'interval',
    values: [
      '1 year 2 mons -3 days +04:05:06.789',
      '-178000000 years',
      '1 mon -1 day',
      '30 days',
      '720:00:00',
      '-00:00:00.000001',
      '00:00:00',
    ],
  },
  { type: 'interval day to second(2)', values: ['3 days 04:05:06.78'] },
  { type: 'integer[]', values: ['{}', '{1,NULL,-1}', '[0:1]={7,8}', '{{1,2},{3,4}}'] },
  {
    type: 'text[]',
    values: [
      '{a,NULL,"NULL","","null"," ","a,b","{}"}',
      '{"quote \\" back \\\\ slash","line\nbreak","tab\t"}',
      '{{"a","b"},{NULL,"\\\\N"}}',
    ],
  },
  { type: 'numeric[]', values: ['{NaN,1.0,1.00,NULL}'] },
  { type: 'timestamptz[]', values: ['{infinity,"0044-03-15 12:00:00+00 BC",NULL}'] },
  { type: 'bytea[]', values: ['{"\\\\x00ff","\\\\x",NULL}'] },
  { type: 'jsonb[]', values: ['{"{\\"a\\": 1.00}",NULL,"null"}'] },
  { type: 'public.mood', values: ['ok', 'sad or not', `it's "fine", \\ {}`] },
  { type: 'public.mood[]', values: [`{ok,NULL,"it's \\"fine\\", \\\\ {}"}`] },
  { type: 'public.percent', values: ['100.00', '0.10'] },
  { type: 'public.words', values: ['{a,NULL,"NULL"}', '{}'] },
  { type: 'int4range', values: ['[1,5)', 'empty', '(,)', '[-2147483648,)'] },
  { type: 'numrange', values: ['[1.0,2.00]', '(1e-30,)', '[NaN,NaN]'] },
  {
    type: 'tstzrange',
    values: ['["2026-09-10 12:00:00.123456+02",infinity)', '[-infinity,)', '(,infinity]'],
  },
  { type: 'daterange', values: ['[4713-01-01 BC,infinity)'] },
  { type: 'public.float_range', values: ['[0.1,0.30000000000000004)', '[-0,Infinity]'] },
  { type: 'int8multirange', values: ['{}', '{[1,2),[5,9223372036854775807)}'] },
  {
    type: 'tstzmultirange',
    values: ['{["0044-03-15 12:00:00+00 BC","2026-01-01 00:00:00+00"],[infinity,infinity]}'],
  },
  { type: 'bit(3)', values: ['101'] },
  { type: 'bit varying', values: ['', '00', '1'.repeat(100)] },
  { type: 'inet', values: ['192.168.0.1/24', '::ffff:1.2.3.4', '2001:db8::1/64'] },
  { type: 'cidr', values: ['10.0.0.0/8', '2001:db8::/32'] },
  { type: 'macaddr', values: ['08:00:2b:01:02:03'] },
  { type: 'macaddr8', values: ['08:00:2b:01:02:03:04:05'] },
  { type: 'point', values: ['(0.1,-0)', '(1e-300,Infinity)', '(NaN,5e-324)'] },
  { type: 'line', values: ['{1,-1,0.1}'] },
  { type: 'lseg', values: ['[(0,0),(0.1,0.2)]'] },
  { type: 'box', values: ['(2,1),(0,0)', '(1,2),(0,0)'] },
  { type: 'path', values: ['[(0,0),(1,1)]', '((0,0),(1,1))', '[(0,0),(2,2)]'] },
  { type: 'polygon', values: ['((0,0),(1,1),(0.1,0))'] },
  { type: 'circle', values: ['<(0,0),1>', '<(5,5),1>'] },
  { type: 'json[]', values: ['{"{\\"a\\": 1,  \\"a\\": 2}",NULL}'] },
  { type: 'box[]', values: ['{(2,1),(0,0);(1,2),(0,0)}'] },
  {
    type: 'public.spot',
    values: ['(,,,)', '("a ""quote"" \\\\ ,",1.5,"{x,NULL}","{""n"": 1.00}")', '(" ",,{},)'],
  },
  { type: 'public.spot[]', values: ['{"(a,1,,)",NULL}'] },
  { type: 'public.route', values: ['("(a,1,{b},)","{""(\\\\""c d\\\\"",,,)""}")'] },
  { type: 'tsvector', values: [`'it''s':1A,2 'two words':3`, ''] },
  { type: 'tsquery', values: [`'a' & !'b':*A <2> 'it''s'`] },
  { type: 'pg_lsn', values: ['FFFFFFFF/FFFFFFFF'] },
  { type: 'oid', values: ['4294967295'] },
  { type: 'xid8', values: ['18446744073709551615'] },
  { type: 'xml', values: ['<a b="1">x &amp; y</a>', '<a/> and more<b/>', ''] },
  { type: 'public.citext', values: ['Straße', 'STRASSE', ''] },
  { type: 'public.hstore', values: ['"a"=>"1", "b"=>NULL, "c d"=>"NULL", "e"=>"\\"\\\\"', ''] },
];

/** A way to ask a server for what its version or its build may lack. */
export interface CorpusServer {
  readonly version: number;
  readonly extensions: readonly string[];
  readonly xml: boolean;
}

export function corpusFor({ version, extensions, xml }: CorpusServer): CorpusColumn[] {
  return columns.flatMap((column) => {
    const extension = /^public\.(citext|hstore)$/.exec(column.type)?.[1];
    if (extension !== undefined && !extensions.includes(extension)) return [];
    if (column.type === 'xml' && !xml) return [];
    const isInterval = column.type === 'interval' && version >= 170_000;
    return [isInterval ? { ...column, values: [...column.values, 'infinity', '-infinity'] } : column];
  });
}
