-- Values of composed types: `declaration=Spark type`, hex of what the send function makes, text with
-- the escapes of COPY. Lines of "oid" have the oid of a type of these and its declaration.
--   psql -X -q -f composed.sql > composed.tsv
set timezone = 'UTC';
set intervalstyle = 'postgres';
select setseed(0.5) \g /dev/null

create type pg_temp.mood as enum ('sad', 'a b', '"', '\', 'NULL', ',', '語');
create type pg_temp.pair as (a int4, b text);
create type pg_temp.nest as (p pair, t int4[], u text[], r int4range, m mood);
create type pg_temp.deep as (n nest, ps pair[], ts timestamptz, tn timestamp, d date, x numeric,
  f float8, ok bool, raw bytea, m int4multirange, ms mood[]);

create temp table cell (number serial, type text, binary_value bytea, value text);

create function pg_temp.add_array(element text, leaf text, a anyarray) returns void
language sql as $$
  insert into cell (type, binary_value, value)
  select format('array:%s=%s%s%s', element, repeat('ARRAY<', n), leaf, repeat('>', n)),
    array_send(a), a::text
  from (select coalesce(array_ndims(a), 1) n) t $$;

create function pg_temp.add_range(leaf text, r anyrange) returns void language sql as $$
  insert into cell (type, binary_value, value)
  values (format('%s=STRUCT<lower:%s,upper:%2$s,lower_inclusive:BOOLEAN,upper_inclusive:BOOLEAN,'
    'empty:BOOLEAN>', pg_typeof(r), leaf), range_send(r), r::text) $$;

create function pg_temp.add_multirange(r anymultirange) returns void language sql as $$
  insert into cell (type, binary_value, value)
  values (format('%s=STRING', pg_typeof(r)), multirange_send(r), r::text) $$;

create function pg_temp.add_record(leaf text, r anyelement) returns void language sql as $$
  insert into cell (type, binary_value, value)
  values (format('composite=%s', leaf), record_send(r), r::text) $$;

create function pg_temp.one_of(variadic texts text[]) returns text language sql volatile as $$
  select texts[1 + floor(random() * cardinality(texts))::int] $$;

create function pg_temp.word() returns text language sql volatile as $$
  select case when random() < 0.2 then pg_temp.one_of('', 'NULL', 'null', 'nULl', ' ', 'NULLs', null)
    else string_agg(pg_temp.one_of('a', 'B', '''', '"', '\', ' ', ',', ';', '{', '}', '(', ')', '[',
      ']', '=', 'é', '語', '😀', E'\n', E'\t', E'\r', E'\f', E'\u00a0'), '') end
  from generate_series(1, 1 + floor(random() * 4)::int) $$;

create function pg_temp.words() returns text[] language sql volatile as $$
  select case when random() < 0.2 then '{}' else array_agg(pg_temp.word()) end
  from generate_series(1, 1 + floor(random() * 4)::int) $$;

create function pg_temp.bounds() returns int4range language sql volatile as $$
  select case when random() < 0.2 then 'empty'
    else int4range(nullif(floor(random() * 5)::int, 0), nullif(5 + floor(random() * 5)::int, 5)) end $$;

create function pg_temp.pair() returns pair language sql volatile as $$
  select row(nullif(floor(random() * 9)::int, 0), pg_temp.word())::pair $$;

create function pg_temp.nest() returns nest language sql volatile as $$
  select row(
    case when random() < 0.8 then pg_temp.pair() end,
    pg_temp.one_of('{}', '{1,NULL,-3}', '[0:1]={1,2}', null)::int4[],
    case when random() < 0.8 then pg_temp.words() end,
    case when random() < 0.8 then pg_temp.bounds() end,
    pg_temp.one_of('sad', 'a b', '"', '\', 'NULL', ',', '語', null)::mood)::nest $$;

create function pg_temp.deep() returns deep language sql volatile as $$
  select row(
    case when random() < 0.8 then pg_temp.nest() end,
    case when random() < 0.8 then array[pg_temp.pair(), null, pg_temp.pair()] end,
    '2024-02-29 12:34:56.789+02'::timestamptz + random() * '1 year'::interval,
    '2024-02-29 12:34:56'::timestamp + random() * '1 year'::interval,
    date '1969-12-31' + floor(random() * 9999)::int,
    (random() - 0.5)::numeric(30, 5) * 100000,
    random() - 0.5,
    random() < 0.5,
    decode(md5(random()::text), 'hex'),
    range_agg(pg_temp.bounds()),
    array['a b', null, 'NULL', '\']::mood[])::deep
  from generate_series(1, 3) $$;

insert into cell (type, binary_value, value)
  select 'oid', oidsend(oid), declaration
  from (values ('pair', 'composite'), ('nest', 'composite'), ('deep', 'composite'), ('mood', 'enum'),
    ('_pair', 'array:composite'), ('_mood', 'array:enum')) t (name, declaration)
  join pg_type on typname = name and typnamespace = pg_my_temp_schema();

\set nest 'STRUCT<p:STRUCT<a:INT,b:STRING>,t:ARRAY<INT>,u:ARRAY<STRING>,r:STRUCT<lower:INT,upper:INT,lower_inclusive:BOOLEAN,upper_inclusive:BOOLEAN,empty:BOOLEAN>,m:STRING>'
\set deep 'STRUCT<n:' :nest ',ps:ARRAY<STRUCT<a:INT,b:STRING>>,ts:TIMESTAMP,tn:TIMESTAMP_NTZ,d:DATE,x:DECIMAL(30,5),f:DOUBLE,ok:BOOLEAN,raw:BINARY,m:STRING,ms:ARRAY<STRING>>'

\o /dev/null

select pg_temp.add_array('int4', 'INT', v::int4[]) from unnest(array['{}', '{0}', '{NULL}',
  '{1,NULL,-2147483648,2147483647}', '[0:2]={7,8,9}', '[-1:0][2:3]={{1,2},{3,NULL}}',
  '[2:3][1:2]={{1,2},{3,4}}', '[-2147483648:-2147483647]={1,2}', '[2147483645:2147483646]={1,2}',
  '{{1},{2},{3}}', '{{1,2,3}}', '{{{1,2},{3,4}},{{5,6},{7,8}}}', '{{{{1,NULL}}}}', '{{{{{{7}}}}}}',
  '[0:0][1:1][2:2][3:3][4:4][5:6]={{{{{{1,2}}}}}}']) v;
select pg_temp.add_array('int4', 'INT', array_fill(n, array[1, 2, 1, 3, 1, 2], array[1, 1, n, 1, 1, 1]))
  from generate_series(0, 2) n;
select pg_temp.add_array('int4', 'INT', array_fill(n, array[2, n, 3])) from generate_series(1, 4) n;
select pg_temp.add_array('text', 'STRING', pg_temp.words()) from generate_series(1, 80);
select pg_temp.add_array('text', 'STRING', array[a, b, a]) from
  (select array[pg_temp.word(), pg_temp.word()] a, array[null, pg_temp.word()] b
   from generate_series(1, 20)) t;
select pg_temp.add_array('bpchar', 'STRING', '{"a ",NULL,"  "}'::char(2)[]);
select pg_temp.add_array('varchar', 'STRING', '{a,"NULL"}'::varchar[]);
select pg_temp.add_array('name', 'STRING', '{a,"b c"}'::name[]);
select pg_temp.add_array('char', 'STRING', array['a', ',', '"', ' ', '']::"char"[]);
select pg_temp.add_array('int2', 'SMALLINT', '{-32768,32767}'::int2[]);
select pg_temp.add_array('int8', 'BIGINT', '{{-9223372036854775808,NULL}}'::int8[]);
select pg_temp.add_array('oid', 'BIGINT', '{0,4294967295}'::oid[]);
select pg_temp.add_array('bool', 'BOOLEAN', v::bool[])
  from unnest(array['{}', '{t,f,NULL}', '{{t},{f}}', '{t,f,t,f,t,f,t,f,t}']) v;
select pg_temp.add_array('float4', 'FLOAT', '{0.1,-0,NaN,Infinity,1e-30}'::float4[]);
select pg_temp.add_array('float8', 'DOUBLE', '{{0.1,-0,NULL},{NaN,-Infinity,1e300}}'::float8[]);
select pg_temp.add_array('float8', 'DOUBLE', array['inf'::float8 - 'inf'::float8]);
select pg_temp.add_array('numeric', 'DECIMAL(38,10)',
  '{0,0.0000000001,-1234567890123456789012345678.5,NULL,1.50}'::numeric[]);
select pg_temp.add_array('numeric', 'DECIMAL(10,2)', '{{1.5,NULL},{-2,99999999.99}}'::numeric[]);
select pg_temp.add_array('date', 'DATE', '{2024-02-29,0001-01-01,NULL}'::date[]);
select pg_temp.add_array('timestamp', 'TIMESTAMP_NTZ',
  '{2024-02-29 12:00:00.5,1969-12-31 23:59:59,NULL}'::timestamp[]);
select pg_temp.add_array('timestamptz', 'TIMESTAMP',
  '[0:1][0:0]={{2024-02-29 12:00:00.000001+02},{1969-12-31 23:59:59+00}}'::timestamptz[]);
select pg_temp.add_array('time', 'STRING', '{12:00:00,24:00:00}'::time[]);
select pg_temp.add_array('interval', 'STRING', '{1 day,-1 mon 2 days 03:04:05.6}'::interval[]);
select pg_temp.add_array('bytea', 'BINARY', array['', '\x00ff5c22', null]::bytea[]);
select pg_temp.add_array('uuid', 'STRING', array['550e8400-e29b-41d4-a716-446655440000']::uuid[]);
select pg_temp.add_array('json', 'VARIANT', array['{"a": [1, "x"]}', 'null', null, '""']::json[]);
select pg_temp.add_array('jsonb', 'VARIANT', array[array['{"b": {"c": 1.50}}', '[]']]::jsonb[]);
select pg_temp.add_array('inet', 'STRING', '{10.0.0.1,::1/64}'::inet[]);
select pg_temp.add_array('bit', 'STRING', '{101,NULL}'::bit(3)[]);
select pg_temp.add_array('box', 'STRING', v::box[]) from unnest(array['{}', '{NULL;(1,1),(0,0)}',
  '{{(1,1),(0,0);(2,2),(1,1)};{(3,3),(0,0);NULL}}', '[0:0]={(1,1),(0,0)}']) v;
select pg_temp.add_array('point', 'STRING', array['(1,2)', '(-1e300,0.5)']::point[]);
select pg_temp.add_array('tsvector', 'STRING', array['a:1 b', '''x y''']::tsvector[]);
select pg_temp.add_array('int2vector', 'STRING', array['1 2', '']::int2vector[]);
select pg_temp.add_array('pg_lsn', 'STRING', '{16/B374D848}'::pg_lsn[]);
select pg_temp.add_array('tid', 'STRING', array['(1,2)']::tid[]);
select pg_temp.add_array('xid8', 'BIGINT', '{0,9223372036854775807}'::xid8[]);
select pg_temp.add_array('enum', 'STRING', v::mood[]) from (values (enum_range(null::mood)),
  ('{}'), (array[[null, 'a b'], ['NULL', '\']]::mood[])) t (v);
select pg_temp.add_array('composite', 'STRUCT<a:INT,b:STRING>', array[pg_temp.pair(), null, pg_temp.pair()])
  from generate_series(1, 20);
select pg_temp.add_array('composite', 'STRUCT<a:INT,b:STRING>',
  array[[pg_temp.pair(), null], [pg_temp.pair(), pg_temp.pair()]]) from generate_series(1, 5);
select pg_temp.add_array('composite', :'nest',
  array[pg_temp.nest(), null, pg_temp.nest()]) from generate_series(1, 15);
select pg_temp.add_array('composite', :'deep', array[pg_temp.deep(), null, pg_temp.deep()])
  from generate_series(1, 8);
select pg_temp.add_array('int4range',
  'STRUCT<lower:INT,upper:INT,lower_inclusive:BOOLEAN,upper_inclusive:BOOLEAN,empty:BOOLEAN>',
  array[pg_temp.bounds(), null, pg_temp.bounds()]) from generate_series(1, 10);
select pg_temp.add_array('tsrange', 'STRUCT<lower:TIMESTAMP_NTZ,upper:TIMESTAMP_NTZ,'
  'lower_inclusive:BOOLEAN,upper_inclusive:BOOLEAN,empty:BOOLEAN>',
  array['[2024-01-01 00:00:00,2024-02-01 00:00:00.5)', 'empty', '(,)', null]::tsrange[]);
select pg_temp.add_array('int4multirange', 'STRING', array[range_agg(pg_temp.bounds()), null, '{}'])
  from (select n % 5 from generate_series(1, 15) n) t (n) group by n;
select pg_temp.add_array('tsmultirange', 'STRING',
  array['{[2024-01-01 00:00:00,2024-02-01 00:00:00.5),[2025-01-01 00:00:00,)}']::tsmultirange[]);

select pg_temp.add_range('INT', v::int4range)
  from unnest(array['empty', '[1,5)', '(,5]', '(1,)', '(,)', '[-2147483648,2147483646]']) v;
select pg_temp.add_range('BIGINT', v::int8range)
  from unnest(array['empty', '[1,5)', '[-9223372036854775808,]']) v;
select pg_temp.add_range('DECIMAL(38,10)', v::numrange)
  from unnest(array['empty', '[-1.5,2.50]', '(0,1)', '(0,1]', '[0,1)', '(,0.0000000001]']) v;
select pg_temp.add_range('DATE', v::daterange)
  from unnest(array['empty', '[2024-02-28,2024-02-29]', '(,1969-12-31)']) v;
select pg_temp.add_range('TIMESTAMP_NTZ', v::tsrange)
  from unnest(array['empty', '[2024-02-28 12:00:00.5,2024-02-29]', '(,1969-12-31 23:59:59)', '(,)']) v;
select pg_temp.add_range('TIMESTAMP', v::tstzrange)
  from unnest(array['empty', '(2024-02-28 12:00:00+02,2024-02-29 00:00:00.5-07]', '[1969-12-31,)']) v;

select pg_temp.add_multirange(v::int4multirange)
  from unnest(array['{}', '{[1,3),[5,8)}', '{(,3),[5,)}', '{(,)}']) v;
select pg_temp.add_multirange('{[1.5,2.50],(3,)}'::nummultirange);
select pg_temp.add_multirange('{[1,5),[7,8)}'::int8multirange);
select pg_temp.add_multirange('{[2024-01-01,2024-02-01),[2025-01-01,)}'::datemultirange);
select pg_temp.add_multirange('{[2024-01-01 00:00:00,2024-02-01),(2025-01-01 12:00,)}'::tsmultirange);
select pg_temp.add_multirange('{[2024-01-01 00:00:00+02,2024-02-01),(2025-01-01 12:00Z,)}'::tstzmultirange);

select pg_temp.add_record('STRUCT<a:INT,b:STRING>', v::pair) from unnest(array['(,)',
  '(1,)', '(,"")', '(2147483647," ")', '(-1,"a""b\\c")', '(0,"(a,b)")', '(1,NULL)']) v;
select pg_temp.add_record('STRUCT<a:INT,b:STRING>', v)
  from (select pg_temp.pair() v from generate_series(1, 40)) t;
select pg_temp.add_record(:'nest',
  v) from (select pg_temp.nest() v from generate_series(1, 40)) t;
select pg_temp.add_record(:'deep', v) from (select pg_temp.deep() v from generate_series(1, 30)) t;

\o
copy (select type, encode(binary_value, 'hex'), value from cell order by number) to stdout;
