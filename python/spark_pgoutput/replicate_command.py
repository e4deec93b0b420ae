"""The command `spark-pgoutput replicate`: its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from spark_pgoutput import password, spark_submit
from spark_pgoutput.config_file import ConfigFile
from spark_pgoutput.job_options import (
    HIDDEN,
    LISTS,
    OF_TABLES,
    PREFIXES,
    entry_key,
    merged_entries,
    option_key,
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command with its arguments."""
    parser = commands.add_parser(
        "replicate",
        help="keep tables of Delta or Iceberg equal to those of a server",
        description="Copy the tables of publications into Delta or Iceberg, and apply each "
        "transaction. You can end the command at any point. If you start it again with the same "
        "arguments, it goes on. The password comes from --password-file, PGPASSWORD, a pgpass file "
        "or a prompt. With --once, the exit status is 0 if everything is applied, and 3 if a table "
        "has failed. It is 1 if the job failed, and 2 if an argument is wrong.",
    )
    job = parser.add_argument_group("the job")
    add_target(job, required=True)
    add_checkpoint(job, required=True)
    job.add_argument(
        "--once",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="end when the job has applied all changes that existed at its start",
    )
    add_job_arguments(job, required=True)
    spark_submit.add_arguments(parser)


def add_checkpoint(group: argparse._ArgumentGroup, *, required: bool) -> None:
    """Add the argument that says where the state of a job is."""
    group.add_argument("--checkpoint", required=required, help="the folder of the job's state")


def add_target(group: argparse._ArgumentGroup, *, required: bool) -> None:
    """Add the arguments that say where the tables of a job are."""
    group.add_argument(
        "--target",
        required=required,
        help="the target of the job: a namespace of a catalog, or a folder of Delta tables",
    )
    group.add_argument(
        "--format",
        choices=["delta", "iceberg"],
        help="the format of the tables; by default, what the catalog writes",
    )


def add_job_arguments(job: argparse._ArgumentGroup, *, required: bool) -> None:
    """Add the arguments that only a job has, to a group."""
    password.add_arguments(job, url_is_required=required)
    job.add_argument(
        "--slot", required=required, help="the slot, which the job makes at its first start"
    )
    job.add_argument(
        "--publication", required=required, help="the publications, with commas between them"
    )

    def repeated(name: str, action: type[argparse.Action], metavar: str, text: str) -> None:
        dest = "columns" if action is _Columns else None
        text = f"{text}; can be repeated"
        job.add_argument(name, action=action, dest=dest, metavar=metavar, help=text)

    repeated(
        *("--name", _Pairs, "TABLE=NAME"),
        "the name of a table in the target, as in public.orders=orders",
    )
    repeated(
        *("--type", _Pairs, "COLUMN=TYPE"),
        "the Spark type of a column, as in public.orders.price=STRING",
    )
    repeated(
        *("--pg-type", _Pairs, "TYPE=TYPE"),
        "the Spark type of all columns of a type of PostgreSQL, as in numeric=DECIMAL(38,18)",
    )
    repeated(
        *("--exclude-column", _Columns, "TABLE.COLUMN"),
        "a column that the target does not get, as in public.users.ssn",
    )
    repeated(
        *("--hash-column", _Columns, "TABLE.COLUMN"),
        "a column of which the target gets hashes, with the salt of --option hashSaltFile=FILE or "
        "hashSaltVariable=NAME",
    )
    repeated(
        *("--mode", _OfTables, "[TABLE=]MODE"),
        "mirror (the default): the target has the rows of a table; versions: it has each version "
        "of each row; history: it has all changes of a table; both: it has the rows, and the "
        "changes in TABLE_history. MODE alone is for all tables, and TABLE=MODE is for one table, "
        "as in public.orders=history",
    )
    repeated(
        *("--on-delete", _OfTables, "[TABLE=]VALUE"),
        "delete (the default): a row that the server deletes is deleted in the target; mark: it "
        "stays, and _deleted_at says when it was deleted. VALUE alone is for all tables",
    )
    repeated(
        *("--partition", _Pairs, "TABLE=FIELDS"),
        "the partitions of a table in the target, as in public.orders=country, or in Iceberg also "
        "public.orders=days(created),bucket(16,id)",
    )
    repeated(
        *("--cluster", _Pairs, "TABLE=COLUMNS"),
        "the columns by which a table is clustered in Delta or sorted in Iceberg, as in "
        "public.orders=customer,created",
    )
    repeated("--property", _Pairs, "NAME=VALUE", "a property of the tables that the job makes")
    job.add_argument(
        "--status-file",
        help="a file of this host that gets the status every 10 seconds, for `status --check`",
    )
    repeated("--option", _Options, "NAME=VALUE", "another option, as in onTableError=stop")


class _Pairs(argparse.Action):
    """Collects arguments of the form NAME=VALUE. The value may have an equals sign, too."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        name, value = self._parts(str(values))
        argument, key = self._entry(name)
        if not key or not value:
            parser.error(f"argument {option_string}: '{values}' must have the form {self.metavar}")
        if problem := self._problem(name):
            parser.error(f"argument {option_string}: {problem}")
        found = getattr(namespace, argument) or {}
        setattr(namespace, argument, self._merged(argument, found, key, value))

    def _parts(self, text: str) -> tuple[str, str]:
        """Return the name and the value, one of which is empty if the form is wrong."""
        name, _, value = text.partition("=")
        return name, value

    def _entry(self, name: str) -> tuple[str, str]:
        """Return the argument that has an entry of this name, and the entry's key in it."""
        return self.dest, name

    def _merged(self, argument: str, found: dict[str, Any], key: str, value: str) -> dict[str, Any]:
        """Return the entries with another one. If two have the same key, the last one counts."""
        return merged_entries(_OPTIONS.get(argument, argument), found, {key: value})

    def _problem(self, name: str) -> str | None:
        """Return why a name is refused; None if it is accepted."""
        return None


class _OfTables(_Pairs):
    """Collects the values of tables. A value without a table is for all other tables."""

    def _parts(self, text: str) -> tuple[str, str]:
        return super()._parts(text) if "=" in text else ("*", text)


class _Columns(_Pairs):
    """Collects columns that are excluded or hashed, and adds them to those of the file."""

    def _parts(self, text: str) -> tuple[str, str]:
        table, _, column = text.rpartition(".")
        return table, column

    def _merged(self, argument: str, found: dict[str, Any], key: str, value: str) -> dict[str, Any]:
        what = "hash" if "--hash-column" in self.option_strings else "excludeColumns"
        tables = {table: dict(hidden) for table, hidden in found.items()}
        hidden = tables.setdefault(entry_key("columns", key), {})
        hidden[what] = [*hidden.get(what, ()), value]
        return tables


class _Options(_Pairs):
    """Collects options, and refuses those that have an argument of their own.

    An option of one table, column or property, such as `names.orders`, becomes an entry of its
    argument. So a file that `--print-config` prints has it in the same place.
    """

    def _entry(self, name: str) -> tuple[str, str]:
        for option, prefix in PREFIXES.items():
            if name.lower().startswith(prefix.lower()):
                return _ARGUMENTS[option], name[len(prefix) :]
        return super()._entry(name)

    def _problem(self, name: str) -> str | None:
        if name.lower() == "password":
            return (
                f"{password.SEEN_BY_ALL}: give the password in PGPASSWORD, a pgpass file, "
                "--password-file or at the prompt"
            )
        own = {option_key(option): argument for option, argument in _ARGUMENTS.items()}
        argument = own.get(option_key(name))
        is_hidden = name.lower().startswith(tuple(each.lower() for each in HIDDEN.values()))
        if argument == "columns" or is_hidden:
            return f"'{name}' has its own arguments: --exclude-column and --hash-column"
        return argument and f"'{name}' has its own argument: --{argument.replace('_', '-')}"

    def _merged(self, argument: str, found: dict[str, Any], key: str, value: str) -> dict[str, Any]:
        if argument != self.dest:
            return super()._merged(argument, found, key, value)
        return {**{k: v for k, v in found.items() if option_key(k) != option_key(key)}, key: value}


# The options that have an argument of their own, with the argument.
_ARGUMENTS = {
    **{
        name: name
        for name in ("url", "user", "slot", "publication", "target", "checkpoint", "once", "format")
    },
    **{"names": "name", "types": "type", "pg_types": "pg_type"},
    **{name: name for name in ("columns", *OF_TABLES, *LISTS)},
    **{"properties": "property", "statusFile": "status_file"},
}
_OPTIONS = {argument: option for option, argument in _ARGUMENTS.items()}


def job_options(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the arguments of `spark_pgoutput.replicate`."""
    options = {option: getattr(arguments, name) for option, name in _ARGUMENTS.items()}
    of_tables = {name: options[name] or {} for name in OF_TABLES}
    return {**options, **of_tables, **(arguments.option or {})}


def argument_values(config: ConfigFile) -> dict[str, object]:
    """Return the values that a file gives the arguments. It is the reverse of `job_options`."""
    options = dict(config.options)
    values = {name: options.pop(option) for option, name in _ARGUMENTS.items() if option in options}
    values |= {"option": options} if options else {}
    if config.password_file is not None:
        values["password_file"] = config.password_file
    if config.password_variable is not None:
        values["password_variable"] = config.password_variable
    if config.properties_file is not None:
        values["properties_file"] = [str(config.properties_file)]
    conf = [f"{name}={value}" for name, value in config.spark.items()]
    return {**values, "conf": conf, "secrets": config.secrets}
