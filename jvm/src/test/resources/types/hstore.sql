-- Values of hstore: type, hex of what the send function makes, text. Prints hstore.tsv, with n random
-- values; more with -v n=10000. The extension hstore is to be there:
--   psql -X -q -At -F $'\t' -f hstore.sql > hstore.tsv
\if :{?n}
\else
\set n 50
\endif
select setseed(0.5) \g /dev/null

create function pg_temp.one_of(variadic texts text[]) returns text language sql volatile as $$
  select texts[1 + floor(random() * cardinality(texts))::int] $$;

create function pg_temp.word() returns text language sql volatile as $$
  select coalesce(
    string_agg(pg_temp.one_of('a', 'NULL', '"', '\', ' ', 'é', '語', '😀', ',', '=>'), ''), '')
  from generate_series(1, floor(random() * 4)::int) $$;

create function pg_temp.pairs() returns hstore language sql volatile as $$
  select coalesce(hstore(array_agg(pg_temp.word()),
    array_agg(case when random() < 0.8 then pg_temp.word() end)), '')
  from generate_series(1, floor(random() * 5)::int) $$;

with v as materialized (select pg_temp.pairs() v from generate_series(1, :n))
select 'hstore', encode(hstore_send(v), 'hex'), v::text from v;
