"""The process of `spark-pgoutput verify`, which spark-submit starts."""

from __future__ import annotations

import sys

from py4j.protocol import Py4JError

from spark_pgoutput import verify_report
from spark_pgoutput.cli import parse
from spark_pgoutput.printable import printable
from spark_pgoutput.replicate_command import job_options
from spark_pgoutput.submitted import FAILURES, failed, session, signalled
from spark_pgoutput.verification import verify


def main() -> int:
    """Verify the tables, and return 0, 3 if a table was skipped, 4 if one differs, or 1."""
    arguments = parse(sys.argv[1:])
    options = job_options(arguments) if arguments.once else {}
    given = {**options, "target": arguments.target, "format": arguments.format}
    spark = session("spark-pgoutput verify", arguments.target)
    stopping = signalled()
    try:
        found = verify(
            spark,
            tables=arguments.table,
            timeout=arguments.timeout,
            # spark-submit adds what a script writes to its standard error to the output.
            tell=None if arguments.json else lambda text: print(printable(text), flush=True),
            **given,
        ).collect()
    except FAILURES as error:
        return failed("verify", error)
    except Py4JError:
        if not stopping.is_set():
            raise
        return 1
    shown = verify_report.as_json if arguments.json else verify_report.as_text
    print(shown(found))
    return verify_report.exit_code(found)


if __name__ == "__main__":
    sys.exit(main())
