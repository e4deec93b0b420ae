"""The process of `spark-pgoutput verify`, which spark-submit starts."""

from __future__ import annotations

import argparse
import sys

from spark_pgoutput import verify_report
from spark_pgoutput.cli import parse
from spark_pgoutput.printable import printable
from spark_pgoutput.replicate_command import job_options
from spark_pgoutput.submitted import run, session
from spark_pgoutput.verification import verify


def main() -> int:
    """Verify the tables, and return 0, 3 if a table was skipped, 4 if one differs, or 1."""
    arguments = parse(sys.argv[1:])
    return run("verify", lambda _: _verify(arguments))


def _verify(arguments: argparse.Namespace) -> int:
    options = job_options(arguments) if arguments.once else {}
    given = {**options, "checkpoint": arguments.checkpoint}
    found = verify(
        session("spark-pgoutput verify", arguments.target, arguments.secrets),
        tables=arguments.table,
        timeout=arguments.timeout,
        # spark-submit mixes the standard error of a script into its output, so JSON stays alone.
        tell=None if arguments.json else lambda text: print(printable(text), flush=True),
        **given,
    ).collect()
    shown = verify_report.as_json if arguments.json else verify_report.as_text
    print(shown(found))
    return verify_report.exit_code(found)


if __name__ == "__main__":
    sys.exit(main())
