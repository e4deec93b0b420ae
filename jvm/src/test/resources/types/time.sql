-- Makes time.tsv: psql -XAtq -F $'\t' -f time.sql -o time.tsv
-- Each row: type, DateStyle or IntervalStyle, TimeZone, what the send function gives, the text.
select setseed(0.5) \g /dev/null

create function pg_temp.text_of(value anyelement, style text, zone text) returns text
language plpgsql volatile as $$
begin
  perform set_config(
    case when pg_typeof(value) = 'interval'::regtype then 'IntervalStyle' else 'DateStyle' end,
    style, true);
  perform set_config('TimeZone', zone, true);
  return value::text;
end $$;

create temp table dates as
select unnest(array[
  'infinity', '-infinity', '4714-11-24 BC', '5874897-12-31', '0044-03-15 BC', '0001-12-31 BC',
  '0001-01-01', '9999-12-31', '10000-01-01', '1969-12-31', '1970-01-01', '2000-02-29',
  '1900-02-28', '2100-03-01', '0004-02-29', '0005-02-28 BC', '0001-02-29 BC', '12024-12-31']::date[]
) as value
union select '2000-01-01'::date + (random() * 40000 - 20000)::int from generate_series(1, 10)
union select '2000-01-01'::date + (random() * 4500000 - 2400000)::int from generate_series(1, 5);

create temp table timestamps as
select unnest(array[
  'infinity', '-infinity', '4714-11-24 00:00:00 BC', '294276-12-31 23:59:59.999999',
  '0001-12-31 23:59:59.999999 BC', '0001-01-01', '9999-12-31 23:59:59.999999', '10000-01-01',
  '0001-01-01 12:00:00', '9999-12-31 12:00:00', '1969-12-31 23:59:59.999999', '2000-01-01',
  '1999-12-31 23:59:59.5', '2024-02-29 00:00:00.000001', '1850-06-01 12:00:00.1',
  '2024-03-31 01:30:00', '2024-10-27 01:30:00', '2500-07-01 00:00:00.12']::timestamp[]
) as value
union select '2000-01-01'::timestamp + (random() * 2e9 - 1e9) * interval '1 s' from generate_series(1, 8)
union select date_trunc('ms', '1970-01-01'::timestamp + random() * 1e9 * interval '1 s')
from generate_series(1, 4);

create temp table times as
select unnest(array['00:00:00', '24:00:00', '23:59:59.999999', '04:05:06.7', '00:00:00.000001',
  '12:00:00.12', '01:02:03.000450']::time[]) as value;

create temp table intervals as
select unnest(array[
  'infinity', '-infinity', '0', '1 year', '-1 year', '1 mon', '-1 mon', '13 mons', '-13 mons',
  '1 day', '-1 day', '1 sec', '-1 sec', '0.000001 s', '-0.000001 s', '-0.5 s', '61 s', '-1 min',
  '1 year -2 mons 3 days -04:05:06.789', '-1 year -2 mons +3 days 04:05:06',
  '1 day -00:00:01', '-1 day +00:00:01', '-1 day 00:00:00.1', '-1 mon 1 day', '1 mon 1 sec',
  '-3 days -4:05:06', '3 days 4:05:06.05', '1 year 2 mons', '-1 year -2 mons', '11 mons',
  '1 min', '1 hour', '-25 hours', '100 hours', '2562047788:00:54.775807', '-2562047788 hours -54.775808 s',
  '178956970 years 7 mons', '-178956970 years -8 mons', '2147483647 days', '-2147483648 days',
  '106751991 days 04:00:54.775807', '106751991 days 04:00:54.775808',
  '-106751991 days -04:00:54.775808', '-106751991 days -04:00:54.775809',
  '106751992 days -24:00:00', '1 day 1 min', '1 day 1 hour', '-2 days -30 min']::interval[]
) as value
union select make_interval(
  months => (random() * 60 - 30)::int * (random() * 2)::int,
  days => (random() * 60 - 30)::int * (random() * 2)::int,
  secs => round((random() * 200000 - 100000)::numeric, (random() * 6)::int)::float8 * (random() * 2)::int)
from generate_series(1, 12);

select 'date', style, 'UTC', encode(date_send(value), 'hex'), pg_temp.text_of(value, style, 'UTC')
from dates,
  unnest(array['ISO, MDY', 'SQL, DMY', 'SQL, MDY', 'Postgres, DMY', 'Postgres, YMD', 'German, DMY'])
    as style
order by style, value;

select 'timestamp', style, 'UTC', encode(timestamp_send(value), 'hex'),
  pg_temp.text_of(value, style, 'UTC')
from timestamps,
  unnest(array['ISO, DMY', 'SQL, DMY', 'SQL, YMD', 'Postgres, DMY', 'Postgres, MDY', 'German, MDY'])
    as style
order by style, value;

select 'timestamptz', style, zone, encode(timestamptz_send(value at time zone 'UTC'), 'hex'),
  pg_temp.text_of(value at time zone 'UTC', style, zone)
from timestamps,
  (values ('ISO, MDY', 'UTC'), ('ISO, MDY', 'America/New_York'), ('ISO, MDY', 'Asia/Kathmandu'),
    ('ISO, MDY', 'Europe/Berlin'), ('SQL, DMY', 'UTC'), ('SQL, MDY', 'Asia/Kathmandu'),
    ('Postgres, DMY', 'Etc/GMT+3'), ('Postgres, MDY', 'GMT'), ('German, DMY', 'Etc/GMT-14'))
    as settings(style, zone)
-- Before 1900 Kathmandu's abbreviation is LMT.
where style like 'ISO%' or zone <> 'Asia/Kathmandu' or value > '1990-01-01'
order by style, zone, value;

select 'time', 'ISO, MDY', 'UTC', encode(time_send(value), 'hex'), value from times order by value;

select 'timetz', 'ISO, MDY', 'UTC', encode(timetz_send(zoned), 'hex'), zoned
from (
  select (value::text || zone)::timetz as zoned
  from times, unnest(array['+00', '+05:30', '-04:56:02', '+15:59:59', '-00:00:01']) as zone
) as timetzs
order by zoned;

select 'interval', style, 'UTC', encode(interval_send(value), 'hex'),
  pg_temp.text_of(value, style, 'UTC')
from intervals, unnest(array['postgres', 'postgres_verbose', 'iso_8601', 'sql_standard']) as style
order by style, value, encode(interval_send(value), 'hex');
