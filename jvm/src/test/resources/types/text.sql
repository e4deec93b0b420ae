-- Values of types that are read as STRING: type, hex of what the send function makes, text.
-- Prints text.tsv, with n random values of a type; more with -v n=10000:
--   psql -X -q -At -F $'\t' -f text.sql > text.tsv
\if :{?n}
\else
\set n 16
\endif
select setseed(0.5) \g /dev/null

create function pg_temp.one_of(variadic texts text[]) returns text language sql volatile as $$
  select texts[1 + floor(random() * cardinality(texts))::int] $$;

create function pg_temp.v4() returns text language sql volatile as $$
  select string_agg(pg_temp.one_of('0', '0', '1', '10', '127', '255'), '.')
  from generate_series(1, 4) $$;

create function pg_temp.v6() returns text language sql volatile as $$
  select string_agg(pg_temp.one_of('0', '0', '0', '0', '0', '1', 'f', 'a0', 'dea', 'ffff'), ':')
  from generate_series(1, 8) $$;

create function pg_temp.number() returns float8 language sql volatile as $$
  select case when random() < 0.1
    then pg_temp.one_of('0', '-0', 'NaN', 'Infinity', '-Infinity', '1e15', '1e14', '1e-4', '1e-5')
    else (random() - 0.5)::numeric(8, 4) || 'e' || floor(random() * 44 - 20) end::float8 $$;

create function pg_temp.point() returns point language sql volatile as $$
  select point(pg_temp.number(), pg_temp.number()) $$;

create function pg_temp.path() returns path language sql volatile as $$
  select case when random() < 0.5 then popen(p) else pclose(p) end
  from (select ('[' || string_agg(pg_temp.point()::text, ',') || ']')::path p
        from generate_series(1, 1 + floor(random() * 4)::int)) t $$;

create function pg_temp.word() returns text language sql volatile as $$
  select string_agg(pg_temp.one_of('a', 'B', '''', '\', ' ', 'é', '語', '😀', ':', '&'), '')
  from generate_series(1, 1 + floor(random() * 5)::int) $$;

create function pg_temp.lexeme() returns text language sql volatile as $$
  select '''' || replace(replace(pg_temp.word(), '\', '\\'), '''', '''''') || '''' $$;

create function pg_temp.vector() returns tsvector language sql volatile as $$
  select string_agg(
    pg_temp.lexeme() || pg_temp.one_of('', ':1', ':2A,1B', ':16383D,3C'), ' ')::tsvector
  from generate_series(1, 1 + floor(random() * 4)::int) $$;

create function pg_temp.query(depth int) returns tsquery language plpgsql volatile as $$
begin
  if depth = 0 or random() < 0.1 then
    return (pg_temp.lexeme() || pg_temp.one_of('', '', ':A', ':*', ':*BD', ':ABCD'))::tsquery;
  end if;
  case floor(random() * 4)::int
    when 0 then return !! pg_temp.query(depth - 1);
    when 1 then return pg_temp.query(depth - 1) && pg_temp.query(depth - 1);
    when 2 then return pg_temp.query(depth - 1) || pg_temp.query(depth - 1);
    else return tsquery_phrase(
      pg_temp.query(depth - 1), pg_temp.query(depth - 1), pg_temp.one_of('0', '1', '1', '2')::int);
  end case;
end $$;

-- What format prints is the output function's text, which a cast to text is not for inet.
create function pg_temp.pair(type text, sent bytea, value anyelement, out text, out text, out text)
  language sql as $$ select type, encode(sent, 'hex'), format('%s', value) $$;

create temp view numbers as select i from generate_series(1, :n) i;

with v as materialized (
  select (pg_temp.v4() || '/' || pg_temp.one_of('0', '7', '8', '31', '32'))::inet v from numbers
  union all
  select (pg_temp.v6() || pg_temp.one_of('', '/0', '/63', '/128'))::inet from numbers
  union all
  select v::inet from unnest(array['::', '::1', '::1.2.3.4', '::0.0.1.2', '::ffff:1.2.3.4',
    '::ffff:0:1.2.3.4', '1::', '1::/17', '::fffe:1.2.3.4', '1:0:0:2::', '0:1:0:1:0:1:0:1']) v)
select (p).* from v, pg_temp.pair('inet', inet_send(v), v) p
union all
select (p).* from v, lateral (select network(v) c) t, pg_temp.pair('cidr', cidr_send(c), c) p;

with v as materialized (
  select substr(md5(random()::text), 1, 12)::macaddr m, substr(md5(random()::text), 1, 16)::macaddr8 e
  from numbers limit 4)
select (p).* from v, pg_temp.pair('macaddr', macaddr_send(m), m) p
union all
select (p).* from v, pg_temp.pair('macaddr8', macaddr8_send(e), e) p;

with v as materialized (select pg_temp.point() v from numbers)
select (p).* from v, pg_temp.pair('point', point_send(v), v) p;
with v as materialized (select lseg(pg_temp.point(), pg_temp.point()) v from numbers)
select (p).* from v, pg_temp.pair('lseg', lseg_send(v), v) p;
with v as materialized (select box(pg_temp.point(), pg_temp.point()) v from numbers)
select (p).* from v, pg_temp.pair('box', box_send(v), v) p;
with v as materialized (select pg_temp.path() v from numbers)
select (p).* from v, pg_temp.pair('path', path_send(v), v) p;
with v as materialized (select polygon(pclose(pg_temp.path())) v from numbers)
select (p).* from v, pg_temp.pair('polygon', poly_send(v), v) p;
with v as materialized (
  select ('{' || concat_ws(',', 1.5 * i, pg_temp.number(), pg_temp.number()) || '}')::line v
  from numbers)
select (p).* from v, pg_temp.pair('line', line_send(v), v) p;
with v as materialized (select circle(pg_temp.point(), abs(pg_temp.number())) v from numbers)
select (p).* from v, pg_temp.pair('circle', circle_send(v), v) p;

with v as materialized (select pg_temp.vector() v from numbers union all select '')
select (p).* from v, pg_temp.pair('tsvector', tsvectorsend(v), v) p;
with v as materialized (
  select pg_temp.query(1 + i % 5) v from numbers, generate_series(1, 3) union all select '')
select (p).* from v, pg_temp.pair('tsquery', tsquerysend(v), v) p;

with v as materialized (
  select jsonb_build_object(pg_temp.word(), pg_temp.number(), pg_temp.word(), array[pg_temp.word()]) v
  from numbers)
select (p).* from v, pg_temp.pair('jsonb', jsonb_send(v), v) p;
with v(v) as (values ('{"b" : 1.50, "b":[]}'::json), ('null'))
select (p).* from v, pg_temp.pair('json', json_send(v), v) p;
with v(v) as (values ('strict $.a[*] ? (@.b > 1 && @."c d" like_regex "x\\d" flag "i")'::jsonpath))
select (p).* from v, pg_temp.pair('jsonpath', jsonpath_send(v), v) p;

with v as materialized (select pg_temp.word() v from numbers limit 4)
select (p).* from v, pg_temp.pair('text', textsend(v), v) p
union all
select (p).* from v, pg_temp.pair('varchar', varcharsend(v), v::varchar) p
union all
select (p).* from v, pg_temp.pair('bpchar', bpcharsend(v::char(9)), v::char(9)) p
union all
select (p).* from v, pg_temp.pair('name', namesend(v::name), v::name) p;
