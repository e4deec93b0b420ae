"""Random and extreme values of PostgreSQL's types, and how a server itself prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class View(NamedTuple):
    """A way to compare how Spark and a server read the values of a type.

    Spark reads a value `{}` as the type, and shows it with an expression. The server's expression
    must give the same, and NULL if the value does not fit. `of_text` is the server's expression for
    values that it sends as text, if that is another one.
    """

    spark_type: str
    shown: str
    expected: str
    of_text: str | None = None


class ServerType(NamedTuple):
    """A type, its extreme values as text, and an expression for random values of row `n`."""

    name: str
    extremes: Sequence[str]
    random: str
    views: Sequence[View] = ()
    printed: View | None = None


# The text of the type's output function, which can differ from a cast to text.
PRINTED = "CASE WHEN num_nonnulls({}) = 1 THEN format('%s', {}) END"
STRING = View("STRING", "{}", PRINTED)

MICROS = 86_400_000_000


def integer(spark_type: str, low: int, high: int) -> View:
    return View(
        spark_type,
        "CAST({} AS STRING)",
        f"CASE WHEN {{}}::text::numeric BETWEEN {low} AND {high} THEN {{}}::text END",
    )


INTEGERS = [
    integer("TINYINT", -(2**7), 2**7 - 1),
    integer("SMALLINT", -(2**15), 2**15 - 1),
    integer("INT", -(2**31), 2**31 - 1),
    integer("BIGINT", -(2**63), 2**63 - 1),
    integer("DECIMAL(20,0)", -(10**20) + 1, 10**20 - 1),
]


def decimal(precision: int, scale: int, value: str = "{}") -> View:
    """Return a view that is NULL if the value is inexact, NaN or infinite."""
    return View(
        f"DECIMAL({precision},{scale})",
        "CAST({} AS STRING)",
        f"CASE WHEN abs({value}) < 1e{precision - scale} AND {value} = trunc({value}, {scale}) "
        f"THEN trunc({value}, {scale})::numeric({precision},{scale})::text END",
    )


WHOLE = [
    View(
        name,
        "CAST({} AS STRING)",
        f"CASE WHEN {{}} BETWEEN {-(2**bits)} AND {2**bits - 1} AND {{}} = trunc({{}}) "
        "THEN trunc({})::numeric(40,0)::text END",
    )
    for name, bits in [("SMALLINT", 15), ("BIGINT", 63)]
]

# PostgreSQL's cast and Spark refuse a number that is too large for a double. If a number is nearer
# to 0 than the least double, PostgreSQL refuses it and Spark rounds it.
DOUBLE_OF_NUMERIC = View(
    "DOUBLE",
    "{}",
    "CASE WHEN {} IN ('NaN', 'Infinity', '-Infinity', 0) OR abs({}) BETWEEN 1e-300 AND 1e308 "
    "THEN {}::float8 WHEN abs({}) < 1e-330 THEN 0 END",
)

COMMON_ERA = "'0001-01-01' AND '9999-12-31 23:59:59.999999'"
UNIX_MICROS = "(extract(epoch FROM {}) * 1000000)::bigint"
TIMESTAMPS = [
    View(
        name,
        "unix_micros(CAST({} AS TIMESTAMP))",
        f"CASE WHEN {{}} BETWEEN {COMMON_ERA} THEN {UNIX_MICROS} END",
    )
    for name in ("TIMESTAMP", "TIMESTAMP_NTZ")
]
DATE = View(
    "DATE",
    "unix_date({})",
    f"CASE WHEN {{}} BETWEEN {COMMON_ERA} THEN {{}} - date '1970-01-01' END",
)

MONTHS = "(extract(year FROM {}) * 12 + extract(month FROM {}))"
DAY_MICROS = (
    f"(extract(day FROM {{}}) * {MICROS} + extract(hour FROM {{}}) * 3600000000 "
    "+ extract(minute FROM {}) * 60000000 + extract(microseconds FROM {}))"
)
INTERVALS = [
    View(
        "INTERVAL DAY TO SECOND",
        "CAST(CAST(extract(DAY FROM {}) AS DECIMAL(20,0)) * 86400000000 + extract(HOUR FROM {}) * "
        "3600000000L + extract(MINUTE FROM {}) * 60000000L + extract(SECOND FROM {}) * 1000000 "
        "AS DECIMAL(38,0))",
        f"CASE WHEN isfinite({{}}) AND {MONTHS} = 0 AND {DAY_MICROS} BETWEEN {-(2**63)} AND "
        f"{2**63 - 1} THEN {DAY_MICROS}::numeric(38,0) END",
    ),
    View(
        "INTERVAL YEAR TO MONTH",
        "extract(YEAR FROM {}) * 12 + extract(MONTH FROM {})",
        f"CASE WHEN isfinite({{}}) AND {DAY_MICROS} = 0 THEN {MONTHS}::int END",
    ),
]

JSON = View("VARIANT", "CAST(to_json({}) AS STRING)", PRINTED)


def range_type(bound_type: str) -> str:
    """Return the type of Spark that has the parts of a range."""
    return (
        f"STRUCT<lower: {bound_type}, upper: {bound_type}, lower_inclusive: BOOLEAN, "
        "upper_inclusive: BOOLEAN, empty: BOOLEAN>"
    )


def in_range(bound_type: str, spark_bound: str, server_bound: str) -> View:
    """Return a view of a range's parts in one text."""
    spark = [f"nvl(CAST({spark_bound.format('{}.' + end)} AS STRING), '-')" for end in ENDS]
    server = [f"coalesce(({server_bound.format(end + '({})')})::text, '-')" for end in ENDS]
    return View(
        range_type(bound_type),
        "{}.lower_inclusive || ' ' || {}.upper_inclusive || ' ' || {}.empty || ' ' || "
        + " || ' ' || ".join(spark),
        "lower_inc({})::text || ' ' || upper_inc({})::text || ' ' || isempty({})::text || ' ' || "
        + " || ' ' || ".join(server),
    )


ENDS = ("lower", "upper")


def ranges(name: str, subtype: str, value: str, view: View) -> list[ServerType]:
    """Return a range type and its multirange type; `value` makes a bound."""
    bounds = "LEAST(a, b), GREATEST(a, b), (ARRAY['[]', '[)', '(]', '()'])[1 + n % 4]"
    either = f"CASE WHEN random() < 0.2 THEN NULL ELSE {value} END"
    pair = f"(SELECT ({either})::{subtype} AS a, ({value})::{subtype} AS b)"
    one = f"(SELECT {name}({bounds}) FROM {pair})"
    multirange = name.replace("range", "multirange")
    return [
        ServerType(name, ["empty", "(,)"], one, [view]),
        ServerType(multirange, ["{}", "{(,)}"], f"{multirange}({one}, {one})"),
    ]


def anything(most: int) -> str:
    """Return text with the characters that arrays, composite types and JSON escape."""
    letters = r"""'aZ09 ,;{}()[]<>"''\/:&!|äß亀🐢' || chr(9) || chr(10) || chr(13)"""
    return (
        f"(SELECT coalesce(string_agg(substr({letters}, random(1, 32), 1), ''), '') "
        f"FROM generate_series(1, random(0, {most})) WHERE n > 0)"
    )


INT4 = "(random(-2147483648::bigint, 2147483647::bigint) >> random(0, 31))"
INT8 = f"(random({-(2**63)}, {2**63 - 1}::bigint) >> random(0, 63))"
DOUBLE = "((random() - 0.5) * 10::float8 ^ random({0}, {1}))"
DAY = "(date '0001-01-01' + random(0, 3652058))"
TIME = f"(time '00:00' + random(0, {MICROS - 1}) * interval '1 microsecond')"
TIMESTAMP = f"({DAY} + {TIME})"
NUMERIC = (
    "(CASE n % 3 WHEN 0 THEN round(random(-1e40::numeric, 1e40::numeric) / 10::numeric ^ "
    "random(0, 60), random(0, 60)) WHEN 1 THEN random(-99999.999::numeric, 99999.999::numeric) "
    "ELSE random(-1000000::numeric, 1000000::numeric) * 10::numeric ^ random(0, 30) END)"
)
POINT = f"point(({DOUBLE.format(-20, 20)})::numeric::float8, round((random() * 100)::numeric, 2))"
BITS = "(SELECT string_agg(random(0, 1)::text, '') FROM generate_series(1, {}) WHERE n > 0)"
ADDRESS4 = "(random(0, 255) || '.' || random(0, 255) || '.' || random(0, 255) || '.0')"
ADDRESS6 = (
    "(SELECT string_agg(CASE WHEN random() < 0.4 THEN '0' ELSE to_hex(random(0, 65535)) END, ':') "
    "FROM generate_series(1, 8) WHERE n > 0)"
)
WORDS = "array_to_string(ARRAY[random(0, 9)::text, random(0, 9)::text, 'a''b', 'ö'], ' ')"
JSON_OBJECT = (
    f"jsonb_build_object('k', {anything(9)}, 'n', {INT8}, 'd', random(-9.99, 9.99), "
    "'l', jsonb_build_array(n, NULL, true, '{}'::jsonb))"
)
LSN = "('0/0'::pg_lsn + random(0, 18446744073709551615::numeric))"

FLOAT_EXTREMES = ["NaN", "Infinity", "-Infinity", "-0", "0", "1", "-1.5", "100000", "1e-5", "1e15"]
TIMESTAMP_EXTREMES = [
    *("infinity", "-infinity", "4713-11-24 00:00:00 BC", "0001-12-31 23:59:59.999999 BC"),
    *("0001-01-01", "9999-12-31 23:59:59.999999", "10000-01-01", "294276-12-31 23:59:59.999999"),
    *("1969-12-31 23:59:59.999999", "1582-10-10 12:00", "2000-02-29 24:00:00", "1900-02-28"),
]

# The types in TYPES that are not built into a server.
USER_TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'happy "quoted"', 'ök, {}');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE TYPE floatrange AS RANGE (subtype = float8, multirange_type_name = floatmultirange);
"""

TYPES = [
    ServerType("bool", ["t", "f"], "random() < 0.5", [View("BOOLEAN", "{}::STRING", "{}::text")]),
    ServerType("int2", ["-32768", "32767"], f"({INT4} >> 16)::int2", INTEGERS),
    ServerType("int4", ["-2147483648", "2147483647", "-1"], f"{INT4}::int4", INTEGERS),
    ServerType("int8", [str(-(2**63)), str(2**63 - 1), "0"], INT8, INTEGERS),
    ServerType("oid", ["0", "4294967295"], "random(0, 4294967295)::oid", INTEGERS),
    ServerType("xid", ["0", "4294967295"], "random(0, 4294967295)::text::xid", INTEGERS),
    ServerType("cid", ["0", "4294967295"], "random(0, 4294967295)::text::cid", INTEGERS),
    ServerType(
        "xid8",
        ["0", "18446744073709551615", "9223372036854775808"],
        "random(0, 18446744073709551615::numeric)::text::xid8",
        INTEGERS[2:],
    ),
    ServerType(
        "float4",
        [*FLOAT_EXTREMES, "1e-45", "3.4028235e38", "1.17549435e-38", "16777217"],
        f"({DOUBLE.format(-37, 38)})::float4",
        [View(name, "CAST({} AS DOUBLE)", "{}::float8") for name in ("FLOAT", "DOUBLE")],
    ),
    ServerType(
        "float8",
        [
            *FLOAT_EXTREMES,
            "5e-324",
            "1.7976931348623157e308",
            "2.2250738585072014e-308",
            "9007199254740993",
            "1e23",
            "2e-3",
            "4.35",
            "2.2250738585072011e-308",
            "1e16",
            "1e22",
        ],
        f"CASE n % 2 WHEN 0 THEN {DOUBLE.format(-300, 300)} ELSE round((random() * 1e6)::numeric, "
        "random(0, 6))::float8 END",
        [View("DOUBLE", "{}", "{}")],
    ),
    ServerType(
        "numeric",
        [
            "NaN",
            "Infinity",
            "-Infinity",
            "0",
            "0.00",
            "1." + "0" * 40,
            "-0.5",
            "1e-16383",
            "1" + "0" * 131071,
            "9" * 38,
            "-" + "9" * 39,
            "1e37",
            "0.0001",
            "1.230",
            "1.239",
        ],
        NUMERIC,
        [DOUBLE_OF_NUMERIC, decimal(38, 10), decimal(12, 2), decimal(38, 38), *WHOLE],
    ),
    ServerType(
        "numeric(12,2)",
        ["9999999999.99", "NaN", "-0.01"],
        "random(-9999999999.99, 9999999999.99)",
        [decimal(12, 2), decimal(20, 5), decimal(5, 2)],
    ),
    ServerType("numeric(3,5)", ["0.00999"], "random(-0.00999, 0.00999)", [decimal(5, 5)]),
    ServerType("numeric(5,-3)", ["99999000"], "random(-99999, 99999) * 1000", [decimal(8, 0)]),
    ServerType(
        "money",
        ["-92233720368547758.08", "92233720368547758.07", "-0.01", "0"],
        f"({INT8}::numeric / 100)::money",
        [decimal(19, 2, "{}::numeric"), decimal(22, 4, "{}::numeric")],
        # The text has a $ and commas, because the locale of the server says so.
        View("STRING", "{}", "{}::numeric::text", PRINTED),
    ),
    ServerType('"char"', ["", "a", "\\377", "\\"], 'random(-128, 127)::"char"'),
    ServerType("char(5)", ["", "a", '",}{ '], f"substr({anything(5)}, 1, 5)"),
    ServerType("varchar(20)", ["", "NULL", "null", " "], anything(20)),
    ServerType("text", ["", "NULL", " a ", "\\", '"', "{}", "()"], anything(300)),
    ServerType("name", ["", "pg_class"], f"{anything(15)}::name"),
    ServerType("refcursor", ["", "<unnamed portal 1>"], f"{anything(15)}::refcursor"),
    ServerType(
        "bytea",
        ["", "\\x00ff5c27", "\\\\x"],
        "substr(decode(md5(random()::text), 'hex'), 1, random(0, 16))",
        [View("BINARY", "hex({})", "upper(encode({}, 'hex'))")],
    ),
    ServerType(
        "date",
        [
            "infinity",
            "-infinity",
            "4713-01-01 BC",
            "0001-12-31 BC",
            "0001-01-01",
            "9999-12-31",
            "10000-01-01",
            "5874897-12-31",
            "1969-12-31",
            "2000-02-29",
            "1582-10-10",
        ],
        DAY,
        [DATE],
    ),
    ServerType("time", ["24:00:00", "00:00:00", "23:59:59.999999", "12:00:00.1"], TIME),
    ServerType(
        "timetz",
        ["24:00:00-15:59:59", "00:00:00+15:59:59", "12:00-04:56:02", "01:02:03.4+00"],
        f"({TIME}::text || '+00')::timetz AT TIME ZONE "
        "make_interval(secs => random(-57599, 57599))",
    ),
    ServerType("timestamp", TIMESTAMP_EXTREMES, TIMESTAMP, TIMESTAMPS),
    ServerType("timestamp(3)", ["1999-12-31 23:59:59.9994"], TIMESTAMP, TIMESTAMPS),
    ServerType("timestamptz", TIMESTAMP_EXTREMES, f"{TIMESTAMP} AT TIME ZONE 'UTC'", TIMESTAMPS),
    ServerType(
        "interval",
        [
            "infinity",
            "-infinity",
            "178000000 years",
            "-178000000 years",
            "00:00:00",
            "-1 year 2 mons -3 days 04:05:06.789",
            "-00:00:00.000001",
            "1 mon -1 day",
            "1 day -1 us",
            "2147483647 days",
            "106751991 days 04:00:54.775807",
            "106751991 days 04:00:54.775808",
            "-106751991 days -04:00:54.775808",
            "-106751992 days",
            "2147483647:59:59.999999",
        ],
        "make_interval(months => CASE WHEN n % 3 = 0 THEN random(-99999, 99999) ELSE 0 END, "
        "days => CASE WHEN n % 3 <> 0 THEN random(-99999, 99999) ELSE 0 END, "
        "secs => CASE WHEN n % 3 = 1 THEN round(random(-99999.9, 99999.9), 6) ELSE 0 END::float8)",
        INTERVALS,
    ),
    ServerType("uuid", ["00000000-0000-0000-0000-000000000000"], "gen_random_uuid()"),
    ServerType(
        "json",
        ["{}", "[]", " 1.10 ", "null", '"\\u00e9\\u4e80"', '{"a": 1, "b": [true, false]}', "-0"],
        f"{JSON_OBJECT}::json",
        [JSON],
    ),
    ServerType(
        "jsonb",
        ["{}", "[]", "1.10", "null", '""', '"\\\\ \\" \\n"', "12345678901234567890123456789012345"],
        JSON_OBJECT,
        [JSON],
    ),
    ServerType(
        "jsonpath",
        ["$", "$.a[*] ? (@.b > 1).c", 'lax $."x y"', "strict $.a + 1", '$.** ? (@ like_regex "a")'],
        "('$.a' || random(0, 99) || '[' || random(0, 9) || ' to last]')::jsonpath",
    ),
    ServerType(
        "inet",
        ["::1/128", "::ffff:1.2.3.4", "1.2.3.4/0", "fe80::/10", "::", "0.0.0.0", "::1.2.3.4"],
        f"CASE n % 3 WHEN 0 THEN ({ADDRESS4} || '/' || random(0, 32))::inet WHEN 1 THEN "
        f"({ADDRESS6} || '/' || random(0, 128))::inet ELSE {ADDRESS6}::inet END",
    ),
    ServerType(
        "cidr",
        ["10.0.0.0/8", "::/0", "0.0.0.0/0", "::1/128"],
        f"network(({ADDRESS4} || '/' || random(0, 32))::inet)::cidr",
    ),
    ServerType("macaddr", ["08:00:2b:01:02:03"], "substr(md5(random()::text), 1, 12)::macaddr"),
    ServerType("macaddr8", ["ff" * 8], "substr(md5(random()::text), 1, 16)::macaddr8"),
    ServerType(
        "bit(1)",
        ["0", "1"],
        "random(0, 1)::bit(1)",
        [View("BOOLEAN", "CAST(CAST({} AS INT) AS STRING)", PRINTED)],
    ),
    ServerType("bit(11)", ["10101010101"], f"{BITS.format(11)}::bit(11)"),
    ServerType("varbit", [""], f"{BITS.format('random(1, 40)')}::varbit"),
    ServerType("pg_lsn", ["0/0", "FFFFFFFF/FFFFFFFF", "16/B374D848"], LSN),
    ServerType("point", ["(1.5,-2)", "(NaN,Infinity)", "(-0,1e300)"], POINT),
    ServerType("line", ["{1,2,3}", "{0,-1,0.1}"], f"line({POINT}, point(-1, -2.5))"),
    ServerType("lseg", ["[(1,2),(3,4)]"], f"lseg({POINT}, {POINT})"),
    ServerType("box", ["(3,4),(1,2)"], f"box({POINT}, {POINT})"),
    ServerType(
        "path",
        ["[(0,0),(1,1)]", "((0,0))"],
        f"(CASE n % 2 WHEN 0 THEN '[' ELSE '(' END || {POINT} || ',' || {POINT} "
        "|| CASE n % 2 WHEN 0 THEN ']' ELSE ')' END)::path",
    ),
    ServerType(
        "polygon", ["((0,0),(1,1),(2,0))"], f"('(' || {POINT} || ',' || {POINT} || ')')::polygon"
    ),
    ServerType("circle", ["<(1,2),3>"], f"circle({POINT}, round(random()::numeric, 3))"),
    ServerType(
        "tsvector",
        ["", "a:1A,2 b:3B 'c d':16383C", "'a''b' '\\\\':4", "x"],
        f"setweight(to_tsvector('simple', {WORDS}), 'B') || strip(to_tsvector('simple', {WORDS}))",
    ),
    ServerType(
        "tsquery",
        [
            "",
            "'fat' & !'rat'",
            "a <-> b <2> (c | d)",
            "'a''b':*",
            "!!a",
            "a:CD | b & c",
        ],
        "to_tsquery('simple', random(0, 9) || ':A & (' || random(0, 9) || ' | !b <-> c)')",
    ),
    *ranges("int4range", "int4", "random(-2147483647, 2147483646)", in_range("INT", "{}", "{}")),
    *ranges("int8range", "int8", f"({INT8} / 2)", in_range("BIGINT", "{}", "{}")),
    *ranges(
        "numrange",
        "numeric",
        "random(-99999.999, 99999.999)",
        in_range("DECIMAL(20,6)", "{}", "{}::numeric(20,6)"),
    ),
    *ranges(
        "tsrange",
        "timestamp",
        TIMESTAMP,
        in_range("TIMESTAMP_NTZ", "unix_micros({}::TIMESTAMP)", UNIX_MICROS),
    ),
    *ranges(
        "tstzrange",
        "timestamptz",
        f"{TIMESTAMP} AT TIME ZONE 'UTC'",
        in_range("TIMESTAMP", "unix_micros({})", UNIX_MICROS),
    ),
    *ranges("daterange", "date", DAY, in_range("DATE", "unix_date({})", "{} - date '1970-01-01'")),
    ServerType(
        "pg_snapshot", ["10:20:10,14,15"], "(n || ':' || n + 9 || ':' || n + 3)::pg_snapshot"
    ),
    ServerType("txid_snapshot", ["10:20:10,14,15"], "(n || ':' || n + 9 || ':')::txid_snapshot"),
    ServerType("int2vector", ["", "1 -2 3"], "(random(-9, 9) || ' ' || n)::int2vector"),
    ServerType("oidvector", ["", "4294967295 0"], "(random(0, 9) || ' ' || n)::oidvector"),
    ServerType("tid", ["(4294967295,65535)", "(0,0)"], "format('(%s,%s)', n, random(0, 9))::tid"),
    ServerType(
        "regtype",
        ["0", "integer", "3999999999"],
        "random(16, 30)::oid::regtype",
        # The text is the name of the type, the number if there is no such type, or a hyphen for 0.
        [
            View(
                "BIGINT",
                "CAST({} AS STRING)",
                "{}::oid::text",
                "CASE WHEN {}::text ~ '^([0-9]+|-)$' THEN replace({}::text, '-', '0') END",
            )
        ],
        View("STRING", "{}", "{}::oid::text", PRINTED),
    ),
    ServerType(
        "mood", ["sad", 'happy "quoted"', "ök, {}"], "(enum_range(NULL::mood))[random(1, 3)]"
    ),
    ServerType("posint", ["1", "2147483647"], "random(1, 999)::posint", INTEGERS[2:3]),
    ServerType(
        "pair",
        ["(,)", '(7,"x, y")', '(,"")', '("-1"," ""\\\\ ")'],
        f"ROW({INT4}, {anything(9)})::pair",
        [
            View(
                "STRUCT<a: INT, b: STRING>",
                "nvl({}.a::STRING, 'null') || '/' || nvl({}.b, 'null')",
                "coalesce(({}).a::text, 'null') || '/' || coalesce(({}).b, 'null')",
            )
        ],
    ),
    ServerType(
        "floatrange",
        ["empty", "(,)"],
        "floatrange(random(-999, 0) / 8.0, random(1, 999) / 8.0, '(]')",
        [in_range("DOUBLE", "CAST({} AS DECIMAL(20,6))", "{}::numeric(20,6)")],
    ),
]
