"""The parent of Spark's Python workers, which lets them start a task without reading zip files.

At the start of each task, a worker invalidates the caches of Python's import system. Before Python
3.12, a zip file then reads its directory at once (python/cpython#103200). The path of a worker has
Spark's own zip files and a JAR, whose directories take 0.1 s. None of these files changes while
tests run.
"""

from __future__ import annotations

import sys
import zipimport

from pyspark import daemon

if __name__ == "__main__":
    if sys.version_info < (3, 12):
        del zipimport.zipimporter.invalidate_caches
    daemon.manager()  # type: ignore[no-untyped-call]
