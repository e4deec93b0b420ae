"""The file of `--config`: what it can say, its errors, and how a command prints one."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from spark_pgoutput import cli, config_file, replication, spark_submit
from spark_pgoutput.password import variables

SECRET = "geheim"
JOB = """
url: jdbc:postgresql://localhost/shop
slot: lake
publication: shop
target: lakehouse.shop
checkpoint: /data/checkpoint
"""
ARGUMENTS = [
    *("--url", "jdbc:postgresql://localhost/shop", "--slot", "lake", "--publication", "shop"),
    *("--target", "lakehouse.shop", "--checkpoint", "/data/checkpoint"),
]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.delenv("NIX", raising=False)
    for name in ("DB_PASSWORD", "S3_KEY"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("HOST", "db.example.org")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.yaml"


def read(file: Path, text: str) -> config_file.ConfigFile:
    file.write_text(text, encoding="utf-8")
    return config_file.read(file)


def refused(file: Path, text: str) -> str:
    """Return why a file is refused, without its name."""
    with pytest.raises(ValueError, match=r"^") as error:
        read(file, text)
    assert str(file) in str(error.value)
    return str(error.value).replace(str(file), "job.yaml")


def test_tables_have_entries_of_their_own(file: Path) -> None:
    found = read(
        file,
        "names: {sales.orders: sold}\nmode: history\ntypes: {note: STRING}\n"
        "tables:\n"
        "  orders: {name: orders_of_shop, mode: mirror, types: {price: STRING, tax: 'DOUBLE'}}\n"
        "  sales.lines: {types: {price: 'DECIMAL(9,2)'}}\n",
    )
    assert found.options == {
        "names": {"sales.orders": "sold", "public.orders": "orders_of_shop"},
        "mode": {"*": "history", "public.orders": "mirror"},
        "types": {
            "note": "STRING",
            "public.orders.price": "STRING",
            "public.orders.tax": "DOUBLE",
            "sales.lines.price": "DECIMAL(9,2)",
        },
    }


HIDDEN = {
    "public.users": {"excludeColumns": ["ssn", 'a,"b'], "hash": ["email"]},
    "sales.lines": {"hash": ["note"]},
}


def test_columns_are_hidden_by_tables_or_by_columns(file: Path, tmp_path: Path) -> None:
    found = read(
        file,
        "columns:\n"
        "  users: {excludeColumns: [ssn, 'a,\"b'], hash: [email]}\n"
        "tables: {sales.lines: {hash: note}}\n",
    )
    assert found.options == {"columns": HIDDEN}
    assert replication.java_options(found.options) == {
        "excludeColumns.public.users": '"ssn","a,""b"',
        "hashColumns.public.users": '"email"',
        "hashColumns.sales.lines": '"note"',
    }
    # The columns that the command line hides are added.
    file.write_text(f"{JOB}columns: {{public.users: {{hash: [email]}}}}\nhashSaltFile: /salt")
    found_by_command = parsed(file, "--hash-column", "users.phone", "--exclude-column", "users.ssn")
    assert found_by_command["columns"] == {
        "public.users": {"hash": ["email", "phone"], "excludeColumns": ["ssn"]}
    }
    assert found_by_command["option"] == {"hashSaltFile": "/salt"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("columns: {a: {exclude: [b]}}", "The nearest one is 'excludeColumns'"),
        ("columns: {a: [b]}", "Here must be a mapping"),
        ("columns: {a: {hash: [no]}}", "YAML reads no as a boolean"),
        ("columns: {a: {hash: [b]}, public.a: {hash: [c]}}", "'hash of public.a' is given twice"),
        ("columns: {a: {hash: [b]}}\ntables: {a: {hash: [c]}}", "'hash of public.a' is given"),
        ("hashSalt: $HOST", "There is no option 'hashSalt' here."),
    ],
)
def test_wrong_hidden_columns_are_an_error(file: Path, text: str, words: str) -> None:
    assert words in refused(file, text)


def test_wrong_hidden_columns_of_python_and_the_command_are_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for wrong in ({"a": ["b"]}, {"a": {"exclude": ["b"]}}):
        with pytest.raises(TypeError, match="must be a mapping with the keys excludeColumns and"):
            replication.java_options({"columns": wrong})
    with pytest.raises(TypeError, match="'hash' of 'a' must be a list of names"):
        replication.java_options({"columns": {"a": {"hash": [1]}}})
    for arguments, words in [
        (["--hash-column", "email"], "must have the form TABLE.COLUMN"),
        (["--option", "columns=a"], "has its own arguments: --exclude-column and --hash-column"),
        (["--option", "excludeColumns.a=b"], "has its own arguments: --exclude-column and"),
        (["--option", "HashColumns.a=b"], "has its own arguments: --exclude-column and"),
    ]:
        with pytest.raises(SystemExit):
            cli.parse(["replicate", *ARGUMENTS, *arguments])
        assert words in capsys.readouterr().err


def test_partitions_and_clusters_are_texts_or_lists(file: Path) -> None:
    found = read(
        file,
        "partition: {events: 'days(at)', sales.orders: ['days(at)', 'bucket(16, id)']}\n"
        "tables:\n"
        "  lines: {partition: [country], cluster: [customer, at]}\n",
    )
    assert found.options == {
        "partition": {
            "events": "days(at)",
            "sales.orders": "days(at),bucket(16, id)",
            "public.lines": "country",
        },
        "cluster": {"public.lines": "customer,at"},
    }
    assert "line 1: 'names of a' takes a text, and not a list" in refused(file, "names: {a: [b]}")


def test_a_name_has_several_spellings(file: Path) -> None:
    for name in ("pgTypes", "pg_types", "pg-types", "PGTYPES"):
        assert read(file, f"{name}: {{numeric: STRING}}").options == {
            "pg_types": {"numeric": "STRING"}
        }
    assert read(file, "password-file: /run/secret").password_file == Path("/run/secret")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slot: a\nslot: b", "line 2: The key 'slot' is given twice"),
        ("pgTypes: {a: b}\npg_types: {c: d}", "line 2: 'pgTypes' and 'pg_types' are one option"),
        ("names: {a: x, a: y}", "line 1: The key 'a' is given twice"),
        ("names: {a: x, public.a: y}", "'names of public.a' is given twice"),
        ("names: {a: x}\ntables: {public.a: {name: y}}", "line 2: 'names of public.a' is given"),
        ("tables: {a: {name: y}}\nnames: {a: x}", "line 2: 'names of a' is given twice"),
        ("cluster: {a: x}\ntables: {public.a: {cluster: [y]}}", "'cluster of public.a' is given"),
        ("mode: {s.a: history}\ntables: {s.a: {mode: mirror}}", "'mode of s.a' is given twice"),
        ("types: {s.a.b: X}\ntables: {s.a: {types: {b: Y}}}", "'types of s.a.b' is given twice"),
        ("tables: {a: {mode: mirror, Mode: history}}", "'mode' and 'Mode' are one option"),
        ("spark: {spark.a: x, spark.a: y}", "The key 'spark.a' is given twice"),
    ],
)
def test_an_option_that_is_given_twice_is_an_error(file: Path, text: str, words: str) -> None:
    assert words in refused(file, text)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("paralelCopies", "parallelCopies"),
        ("tabel", "tables"),
        ("exclude", "excludeTables"),
        ("names.public.orders", "names"),
        ("property", "properties"),
        ("password_fil", "passwordFile"),
        ("on_table_eror", "onTableError"),
    ],
)
def test_an_unknown_option_has_a_nearest_one(file: Path, name: str, near: str) -> None:
    error = refused(file, f"slot: a\n{name}: x")
    assert f"line 2: There is no option '{name}' here. The nearest one is '{near}'." in error


def test_an_unknown_option_of_a_table_has_a_nearest_one(file: Path) -> None:
    error = refused(file, "tables: {a: {type: {b: STRING}}}")
    assert "There is no option 'type' here. The nearest one is 'types'." in error
    error = refused(file, "spark: {master: local}")
    assert "'master' is not a setting of Spark, because their names begin with 'spark.'." in error


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("maintenance: off", "off", "a boolean"),
        ("slot: no", "no", "a boolean"),
        ("slot: 12", "12", "a number"),
        ("interval: 1:30", "1:30", "a number"),
        ("maxHeldWal: 1000000", "1000000", "a number"),
        ("tableName: 1.5", "1.5", "a number"),
        ("slot: 2026-01-01", "2026-01-01", "a time"),
        ("names: {a: on}", "on", "a boolean"),
        ("tables: {a: {mode: off}}", "off", "a boolean"),
        ("publication: [shop, yes]", "yes", "a boolean"),
        ("spark: {spark.a: off}", "off", "a boolean"),
        ("spark: {spark.a: 0x10}", "0x10", "a number"),
        ("properties: {a: 1_000}", "1_000", "a number"),
    ],
)
def test_a_text_that_yaml_reads_as_another_type_must_be_quoted(
    file: Path, text: str, value: str, kind: str
) -> None:
    error = refused(file, text)
    assert f'takes a text, and YAML reads {value} as {kind}. Quote it: "{value}".' in error
    read(file, text.replace(value, f'"{value}"'))


def test_some_options_take_booleans_numbers_and_lists(file: Path) -> None:
    found = read(
        file,
        "once: yes\nfailover: 'true'\nparallelCopies: 4\nmoneyScale: '3'\n"
        "publication: [a, '\"b,c\"']\n"
        "properties: {x: true, y: 12, z: 0.5}\nspark: {spark.a: false, spark.b: 4g, spark.c: 7}\n",
    )
    assert found.options == {
        **{"once": True, "failover": True, "parallelCopies": "4", "moneyScale": "3"},
        **{"publication": 'a,"b,c"', "properties": {"x": "true", "y": "12", "z": "0.5"}},
    }
    assert found.spark == {"spark.a": "false", "spark.b": "4g", "spark.c": "7"}
    assert read(file, "").options == {}
    for text, words in [
        ("once: perhaps", "'once' must be true or false"),
        ("once: 1", "'once' takes a text"),
        ("parallelCopies: 0x4", "'parallelCopies' must be a whole number such as 4"),
        ("parallelCopies: yes", "'parallelCopies' must be a whole number such as 4"),
        ("infinity: null", "'infinity' has no value"),
        ("slot:", "'slot' has no value"),
        ("slot: [a]", "'slot' takes a text, and not a list or a mapping"),
        ("slot: !mine a", "'slot' takes a text"),
        ("names: x", "Here must be a mapping for names"),
        ("- url", "Here must be a mapping for the file"),
        ("names: {no: x}", "A key must be a text. Quote it"),
    ]:
        assert words in refused(file, text)


def test_names_with_commas_between_them_can_be_a_list(file: Path) -> None:
    options = {"publication": "shop,all", "excludeTables": "tmp_*,staging.*"}
    found = read(file, "publication: [shop, all]\nexcludeTables: [tmp_*, staging.*]")
    assert found.options == options
    assert read(file, "publication: shop,all\nexcludeTables: tmp_*,staging.*").options == options
    lists = {"publication": ["shop", "all"], "excludeTables": ("tmp_*", "staging.*")}
    assert replication.java_options(lists) == options
    with pytest.raises(TypeError, match="'publication' must be a list of texts, not an int"):
        replication.java_options({"publication": [1]})


def test_variables_of_the_environment_are_replaced(file: Path) -> None:
    text = "url: jdbc:postgresql://$HOST/${HOST}_x\nslot: a$$b$$$$c\nspark: {spark.a: $HOST}"
    found = read(file, text)
    host = os.environ["HOST"]
    assert found.options == {"url": f"jdbc:postgresql://{host}/{host}_x", "slot": "a$b$$c"}
    assert found.spark == {"spark.a": host}
    assert (
        "line 1: A part of 'slot' is in the variable NIX of the environment, which is not set"
        in (refused(file, "slot: a$NIX"))
    )
    for wrong in ("a$", "$1", "${a", "${spark.x}"):
        assert "Write $NAME for a variable, or $$ for a $." in refused(file, f"slot: '{wrong}'")


@pytest.mark.parametrize(
    "text",
    [
        f"password: {SECRET}",
        f"password: '{SECRET}'",
        f"password: x{SECRET}$DB_PASSWORD",
        f"password: $${SECRET}",
        f"password: [{SECRET}]",
        f"password: {SECRET}: x",
        f"password: *{SECRET}",
        f"password: !{SECRET} x",
        f"password: @{SECRET}",
        f'password: "{SECRET}',
        f"url: jdbc:postgresql://h/shop?password={SECRET}",
        "url: jdbc:postgresql://h/shop?password=$DB_PASSWORD",
        f"url: jdbc:postgresql://h/shop?ssl=true&sslpassword={SECRET}",
        f"spark: {{spark.hadoop.fs.s3a.secret.key: {SECRET}}}",
        f"spark: {{spark.hadoop.fs.s3a.access.key: {SECRET}}}",
        f"spark: {{spark.sql.catalog.c.credential: 'id:{SECRET}'}}",
        f"spark: {{spark.sql.catalog.c.jdbc.password: {SECRET}}}",
    ],
)
def test_a_file_has_no_password_itself(
    file: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(file, JOB.replace("url: jdbc:postgresql://localhost/shop", "") + text)
    assert SECRET not in error
    if not text.startswith("url") and "not YAML" not in error:
        assert "such as $PGPASSWORD" in error
    with pytest.raises(SystemExit):
        cli.parse(["replicate", "--config", str(file)])
    assert SECRET not in capsys.readouterr().err


def test_a_password_comes_from_where_the_file_says(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(*arguments: str) -> dict[str, str]:
        return variables(cli.parse(["replicate", "--config", str(file), *arguments]))

    (tmp_path / "pass").write_text("of the file\n")
    (tmp_path / "other").write_text("of the other file\n")
    monkeypatch.setenv("PGPASSWORD", "of the environment")
    file.write_text(JOB)
    assert found() == {}  # spark-submit inherits PGPASSWORD
    file.write_text(f"{JOB}password: $DB_PASSWORD")
    assert found() == {"PGPASSWORD": SECRET}
    assert found("--password-file", str(tmp_path / "other")) == {"PGPASSWORD": "of the other file"}
    file.write_text(f"{JOB}passwordFile: {tmp_path}/pass")
    assert found() == {"PGPASSWORD": "of the file"}
    assert found("--password-file", str(tmp_path / "other")) == {"PGPASSWORD": "of the other file"}
    assert "a password and a passwordFile" in refused(file, "password: $HOST\npasswordFile: x")
    assert "The password is in the variable NIX" in refused(file, "password: ${NIX}")


def test_a_file_that_cannot_be_read_is_an_error(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"The config file .* cannot be read\. .*No such file"):
        config_file.read(file)
    with pytest.raises(ValueError, match="is not a regular file"):
        config_file.read(tmp_path)
    file.write_bytes(b"slot: \xff")
    with pytest.raises(ValueError, match="cannot be read"):
        config_file.read(file)
    assert "line 2: This is not YAML, because " in refused(file, "slot: a\nb: c: d")
    assert "is not YAML" in refused(file, "slot: \x00")


def parsed(file: Path, *arguments: str, command: str = "replicate") -> dict[str, Any]:
    return vars(cli.parse([command, "--config", str(file), *arguments]))


def test_the_command_line_wins_over_the_file(file: Path) -> None:
    file.write_text(
        f"{JOB}once: true\nmode: history\nnames: {{orders: a, s.t: b}}\n"
        "interval: 5s\nparallelTables: 3\n"
        "spark: {spark.a: x, spark.b: y, spark.c: z}"
    )
    (properties := file.with_name("my.conf")).write_text("spark.c other")
    found = parsed(
        *(file, "--slot", "other", "--no-once", "--mode", "mirror", "--mode", "s.t=history"),
        *("--name", "public.orders=c", "--option", "Interval=7s", "--conf", "spark.a=w"),
        *("--properties-file", str(properties)),
    )
    assert (found["slot"], found["publication"], found["once"]) == ("other", "shop", False)
    assert found["mode"] == {"*": "mirror", "s.t": "history"}
    assert found["name"] == {"s.t": "b", "public.orders": "c"}
    assert found["option"] == {"parallelTables": "3", "Interval": "7s"}
    assert found["conf"] == ["spark.b=y", "spark.a=w"]
    assert parsed(file)["conf"] == ["spark.a=x", "spark.b=y", "spark.c=z"]


def test_each_command_takes_only_options_of_its_own(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{JOB}once: true\nformat: delta\nuser: lake\nspark: {{spark.a: x}}\n"
    file.write_text(text)

    def taken(command: str, *arguments: str) -> set[str]:
        found = parsed(file, *arguments, command=command)
        assert found["conf"] == ["spark.a=x"]
        names = {"checkpoint", "target", "format", "url", "user", "slot", "publication", "once"}
        names |= {"status_file"}
        return {name for name in names if found.get(name)}

    server = {"checkpoint", "url", "user", "slot"}
    everything = {*server, "publication", "target", "format", "once"}
    assert taken("replicate") == everything
    assert taken("status") == server
    assert taken("adopt", "--last-lsn", "0/1") == {*server, "publication"}
    assert taken("verify") == {"checkpoint"}
    assert taken("verify", "--once") == everything
    assert taken("resync", "--all") == {"checkpoint"}
    lost = taken("resync", "--all", "--target", "lakehouse.shop")
    assert lost == {"target", "format", "slot"}
    assert taken("status", "--check") == {"checkpoint"}
    file.write_text(f"{text}statusFile: /run/status.json")
    assert taken("replicate") == {*everything, "status_file"}
    assert taken("status") == server
    assert taken("status", "--check") == taken("status", "--prometheus") == {"status_file"}
    assert taken("status", "--check", "--checkpoint", "/data/other") == {"checkpoint"}
    assert taken("status", "--status-file", "/run/other.json") == {"status_file"}
    file.write_text("slot: lake\nuser: lake\nspark: {spark.a: x}")
    assert taken("status", "--checkpoint", "/data/checkpoint") == {"checkpoint"}
    assert taken("status", "--checkpoint", "/c", "--url", "jdbc:postgresql:x") == server
    file.write_text("slot: lake")
    with pytest.raises(SystemExit):
        parsed(file)
    needed = "the following arguments are required: --target, --checkpoint, --url, --publication"
    assert needed in capsys.readouterr().err


def test_a_secret_setting_is_in_no_argument(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "spark.hadoop.fs.s3a.secret.key"
    file.write_text(f"{JOB}password: $DB_PASSWORD\nspark: {{{name}: $S3_KEY}}")
    lines: list[list[str]] = []

    def replace(program: str, line: list[str], environment: dict[str, str]) -> NoReturn:
        lines.append(line)
        raise InterruptedError

    monkeypatch.setattr(os, "execve", replace)
    monkeypatch.setattr(spark_submit, "use_logging_file", lambda *_: None)
    with pytest.raises(SystemExit):  # because the process is not replaced
        cli.main(["replicate", "--config", str(file)])
    assert SECRET not in str(lines)
    assert parsed(file)["secrets"] == {name: "S3_KEY"}
    assert parsed(file, "--conf", f"{name}=mine")["secrets"] == {}


def test_no_secret_is_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "spark.hadoop.fs.s3a.secret.key"
    given = ["replicate", *ARGUMENTS, "--conf", f"{name}={SECRET}", "--print-config"]
    assert cli.main(given) == 0
    shown = capsys.readouterr().out
    assert SECRET not in shown
    variable = "SPARK_HADOOP_FS_S3A_SECRET_KEY"
    assert yaml.safe_load(shown)["spark"] == {name: f"${variable}"}
    file.write_text(f"{JOB}password: $DB_PASSWORD\nspark: {{{name}: $S3_KEY}}")
    assert cli.main(["replicate", "--config", str(file), "--print-config"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^password: \$DB_PASSWORD$", shown, re.M)
    assert f"  {name}: $S3_KEY" in shown
    assert SECRET not in shown


class Session:
    """A stand-in for a session, with settings."""

    def __init__(self, **settings: str) -> None:
        self.conf = settings


def test_arguments_of_python_win_over_the_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "pass").write_text("of the file\n")
    text = f"{JOB}passwordFile: {tmp_path}/pass\ninterval: 5s\nmode: history\nnames: {{orders: a}}"
    found = read(file, f"{text}\nspark: {{spark.a: x, spark.b: 'y,z'}}")

    def options(**given: object) -> dict[str, str]:
        session: Any = Session(**{"spark.a": "x", "spark.b": "w,z,y"})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return replication.java_options(replication._with_file(session, found, given))

    all_given = options(url=None, slot="other", Interval="7s", names={"public.orders": "b"})
    assert all_given == {
        **{"url": "jdbc:postgresql://localhost/shop", "publication": "shop", "slot": "other"},
        **{"target": "lakehouse.shop", "checkpoint": "/data/checkpoint", "interval": "7s"},
        **{"mode": "history", "names.public.orders": "b", "password": "of the file"},
    }
    assert options(mode={"s.t": "mirror"})["mode"] == "history"
    assert options(mode="mirror")["mode"] == "mirror"
    assert options(password="mine")["password"] == "mine"
    assert "password" not in options(url="jdbc:postgresql://h/shop?password=x")
    with pytest.warns(UserWarning, match=r"lacks settings of the config file: spark\.b\. Give"):
        replication._with_file(Session(**{"spark.a": "x"}), found, {})  # type: ignore[arg-type]


def test_columns_of_a_call_are_added_to_those_of_the_file(file: Path) -> None:
    """No argument of a call shows a column that the file hides, as with the command line."""
    hidden = "columns: {users: {excludeColumns: [ssn], hash: [email]}, s.t: {hash: [a]}}"
    found = read(file, f"{JOB}{hidden}\nhashSaltVariable: DB_PASSWORD")

    def columns(given: object) -> dict[str, str]:
        session: Any = Session()
        options = replication._with_file(session, found, {"columns": given})
        texts = replication.java_options(options)
        return {name: value for name, value in texts.items() if "Columns." in name}

    of_file = columns(None)
    assert of_file == {
        **{"excludeColumns.public.users": '"ssn"', "hashColumns.public.users": '"email"'},
        **{"hashColumns.s.t": '"a"'},
    }
    assert columns({"public.users": {"hash": ["email", "phone"]}}) == {
        **{"excludeColumns.public.users": '"ssn"', "hashColumns.public.users": '"email","phone"'},
        **{"hashColumns.s.t": '"a"'},
    }
    assert columns({"users": {"excludeColumns": "notes"}, "s.t": {}, "x": {"hash": ["b"]}}) == {
        **{"excludeColumns.public.users": '"ssn","notes"', "hashColumns.public.users": '"email"'},
        **{"hashColumns.s.t": '"a"', "hashColumns.public.x": '"b"'},
    }
    # Scala's spelling of an entry adds columns, too.
    session: Any = Session()
    scala = {"excludeColumns.public.users": "notes", "hashColumns.public.users": '"phone"'}
    options = replication.java_options(replication._with_file(session, found, scala))
    assert options["excludeColumns.public.users"] == '"ssn",notes'
    assert options["hashColumns.public.users"] == '"email","phone"'
    for wrong in ({"users": ["ssn"]}, {"users": {"hash": 1}}, {"users": {"hide": ["ssn"]}}):
        with pytest.raises(TypeError, match=r"users"):
            columns(wrong)


@pytest.mark.parametrize("name", ["on_delete", "onDelete", "ondelete"])
def test_each_spelling_of_a_mapping_is_merged_with_the_file(file: Path, name: str) -> None:
    session: Any = Session()

    def options(text: str, value: object) -> dict[str, str]:
        given = replication._with_file(session, read(file, f"{JOB}{text}"), {name: value})
        texts = replication.java_options(given)
        return {each: texts[each] for each in texts if each.startswith("onDelete")}

    of_file = "onDelete: {orders: mark, s.t: delete}"
    assert options(of_file, "mark") == {
        **{"onDelete": "mark", "onDelete.orders": "mark", "onDelete.s.t": "delete"}
    }
    assert options(of_file, {"public.orders": "delete"}) == {
        **{"onDelete.public.orders": "delete", "onDelete.s.t": "delete"}
    }
    assert options("", "mark") == {"onDelete": "mark"}
    assert options("", {"orders": "mark"}) == {"onDelete.orders": "mark"}
