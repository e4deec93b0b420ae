-- The rows of numbers.tsv: type, what its send function makes in hexadecimal, text.
--   psql -X -q -At -F $'\t' -f numbers.sql > numbers.tsv
select setseed(0.5) \g /dev/null
with numbers(x) as (
  values ('NaN'::numeric), ('Infinity'), ('-Infinity'), ('0'), ('0.00'), ('-0.0'), ('1'), ('-1'), ('10000'), ('9999'), ('99999999'), ('100000000'), ('0.1'), ('0.0001'), ('0.00001'), ('0.12345'), ('1.230'), ('-1.239'),
    ('9223372036854775807'), ('9223372036854775808'), ('-9223372036854775808'), ('-9223372036854775809'), ('18446744073709551615'),
    ('99999999999999999999999999999999999999'), ('-99999999999999999999999999999999999999'), ('100000000000000000000000000000000000000'),
    ('0.00000000000000000000000000000000000001'), ('0.99999999999999999999999999999999999999'), ('9999999999999999999.9999999999999999999'),
    ('1e40'), ('1e-40'), ('123e60'), ('2.5e-320'), ('1.7976931348623158e308'), ('1.7976931348623159e308'), ('4.9e-324'), ('2.4703282292062327e-324'), ('2.4703282292062328e-324'),
    ('9007199254740993'), ('9007199254740992.99999999999999999999999'), ('9007199254740993.00000000000000000000000000000000000000000000000001'),
    ('16777217'), ('16777216.99999999999999999999'), ('16777217.00000000000000000000000000000000000000001'), ('3.4028235677973366e38'), ('3.402823567797336616375393954e38'),
    ('1.5'::numeric(40,30)), ('1'::numeric(30,25)), ('123456789012345678.9'), ('1234567890123456789.5'), ('12345678901234567890.5')
  union all
  select ((random() * 1e18)::numeric * power(10::numeric, (random() * 40 - 20)::int) * (case when random() < 0.5 then -1 else 1 end)) from generate_series(1, 120)
  union all
  select trunc((random() * 1e15)::numeric / power(10::numeric, (random() * 15)::int), (random() * 12)::int) from generate_series(1, 60)
  union all
  select (string_agg((random() * 10000)::int::text, '') || '.' || string_agg((random() * 10000)::int::text, ''))::numeric from generate_series(1, 200) n group by n % 20
)
select 'numeric', encode(numeric_send(x), 'hex'), x::text from numbers;
select 'float8', encode(float8send(x), 'hex'), x::text from (
  values ('NaN'::float8), ('Infinity'), ('-Infinity'), ('0'), ('-0'), ('1'), ('1e15'), ('999999999999999'), ('1e14'), ('123456789012345680'), ('0.0001'), ('0.00001'), ('0.00012345'), ('0.5'), ('-0.05'), ('1.5e300'), ('1e100'), ('1e-100'),
    ('5e-324'), ('1e-323'), ('2.2250738585072014e-308'), ('2.225073858507201e-308'), ('1.7976931348623157e308'), ('9007199254740991'), ('9007199254740992'), ('9007199254740994'), ('1e23'), ('9.5367431640625e-07'), ('2e-44'), ('9.6'), ('100'), ('123456.789')
  union all
  select (case when random() < 0.5 then -1 else 1 end) * power(2::float8, e) from generate_series(-1074, 1023, 17) e
  union all
  select random() * power(10::float8, (random() * 40 - 20)::int) from generate_series(1, 80)
) t(x);
select 'float4', encode(float4send(x), 'hex'), x::text from (
  values ('NaN'::float4), ('Infinity'), ('-Infinity'), ('0'), ('-0'), ('1e6'), ('999999'), ('1e5'), ('123456.7'), ('1234567'), ('0.0001'), ('0.00001'), ('1e-45'), ('1.1754944e-38'), ('1.1754942e-38'), ('3.4028235e38'), ('16777216'), ('16777218'), ('0.1'), ('-0.3'), ('8388608.5')
  union all
  select power(2::float8, e)::float4 from generate_series(-149, 127, 7) e
  union all
  select (random() * power(10::float8, (random() * 30 - 15)::int))::float4 from generate_series(1, 40)
) t(x);
set lc_monetary = 'C';
select 'money', encode(cash_send(x), 'hex'), x::text from (values ('0'::money), ('0.01'), ('-0.01'), ('1234.56'), ('-1234.56'), ('92233720368547758.07'), ('-92233720368547758.08'), ('-1000000')) t(x);
select 'bytea', encode(x, 'hex'), x::text from (values (''::bytea), ('\x00'), ('\x5c'), ('\x61275c00ff7f80'), (decode(repeat('00ff41', 30), 'hex'))) t(x);
set bytea_output = escape;
select 'bytea_escape', encode(x, 'hex'), x::text from (values (''::bytea), ('\x00'), ('\x5c'), ('\x5c78'), ('\x61275c00ff7f80'), ((select string_agg(set_byte('\x00', 0, b), '') from generate_series(0, 255) b))) t(x);
select 'bit', encode(bit_send(x), 'hex'), x::text from (values (B'0'), (B'1'), (B'10110111'), (B'101101111')) t(x);
select 'varbit', encode(varbit_send(x), 'hex'), x::text from (values (B''::varbit), (B'1'), (B'0'), (B'0000000100100011010'), (repeat('10', 40)::varbit)) t(x);
select 'uuid', encode(uuid_send(x), 'hex'), x::text from (values ('00000000-0000-0000-0000-000000000000'::uuid), ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), ('ffffffff-ffff-ffff-ffff-ffffffffffff')) t(x);
select 'pg_lsn', encode(pg_lsn_send(x), 'hex'), x::text from (values ('0/0'::pg_lsn), ('16/B374D848'), ('FFFFFFFF/FFFFFFFF'), ('1/A')) t(x);
select 'xid8', encode(xid8send(x), 'hex'), x::text from (values ('0'::xid8), ('9223372036854775807'), ('9223372036854775808'), ('18446744073709551615')) t(x);
select 'cid', encode(cidsend(x), 'hex'), x::text from (values ('0'::cid), ('4294967295')) t(x);
select 'tid', encode(tidsend(x), 'hex'), x::text from (values ('(0,0)'::tid), ('(4294967295,65535)'), ('(70000,3)')) t(x);
select 'pg_snapshot', encode(pg_snapshot_send(x), 'hex'), x::text from (values ('10:10:'::pg_snapshot), ('10:20:10,14,15'), ('4294967306:4294967310:4294967306,4294967309')) t(x);
select 'txid_snapshot', encode(txid_snapshot_send(x), 'hex'), x::text from (values ('10:20:10,14,15'::txid_snapshot)) t(x);
select 'int2vector', encode(int2vectorsend(x), 'hex'), x::text from (values (''::int2vector), ('1'), ('1 -2 32767')) t(x);
select 'oidvector', encode(oidvectorsend(x), 'hex'), x::text from (values (''::oidvector), ('1 2 4294967295')) t(x);
select 'char', encode(charsend(x), 'hex'), x::text from (values (''::"char"), ('a'), ('\'), ('\200'), ('\351'), ('\377')) t(x);
select 'regclass', encode(regclasssend(x), 'hex'), x::text from (values ('4000000000'::regclass), ('123456789')) t(x);
