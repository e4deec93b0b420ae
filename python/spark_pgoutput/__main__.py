"""`python -m spark_pgoutput` runs the command `spark-pgoutput`."""

import sys

from spark_pgoutput.cli import main

if __name__ == "__main__":
    sys.exit(main())
