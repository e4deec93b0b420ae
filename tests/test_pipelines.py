"""Spark's declarative pipelines read slots, by the files that the page shows."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from spark_pgoutput.jar import jar_path
from support.documentation import DOCS, ROOT, blocks, statements
from support.processes import TIMEOUT, errors_of, started
from support.servers import Server

PAGE = DOCS / "pipelines.md"

SPEC, TABLES = "spark-pipeline.yml", "transformations/orders.py"

# The first Spark with AUTO CDC.
SPARK_4_3 = next(ROOT.glob(".spark-4.3.*"), None)

pytestmark = [
    pytest.mark.infra,
    pytest.mark.skipif(
        importlib.util.find_spec("pyspark.pipelines") is None, reason="Spark is older than 4.1"
    ),
]


class Pipeline:
    """The pipeline of the page, for the server of a test.

    Parameters
    ----------
    folder : Path
        The folder of its files and its tables.
    server : Server
        The server.
    """

    def __init__(self, folder: Path, server: Server) -> None:
        self._folder, self.server = folder, server
        (spec,) = self._blocks("yaml")
        self._tables, self._auto_cdc = self._blocks("python")
        (folder / TABLES).parent.mkdir()
        (folder / SPEC).write_text(spec)
        (folder / TABLES).write_text(self._tables)
        for text in self._blocks("postgresql"):
            for statement in statements(text):
                server.execute(statement)

    def _blocks(self, language: str) -> list[str]:
        server = self.server
        address = f"{server.host}:{server.port}/{server.database}"
        return [
            block.text.replace("localhost:5432/shop", address).replace("/data/", f"{self._folder}/")
            for block in blocks(PAGE)
            if block.language == language
        ]

    def use_auto_cdc(self) -> None:
        """Replace the materialized view by AUTO CDC."""
        changes, _ = self._tables.split("@dp.materialized_view")
        (self._folder / TABLES).write_text(changes)
        (self._folder / TABLES).with_name("auto_cdc.py").write_text(self._auto_cdc)

    def run(self, *command: str, spark: Path | None = None) -> str:
        """Run a command of a pipeline, and return what it prints, whether or not it succeeds.

        Parameters
        ----------
        *command : str
            The command with its arguments.
        spark : Path, optional
            The folder of another PySpark.
        """
        program = "spark-pipelines" if spark is None else f"{spark}/pyspark/bin/spark-pipelines"
        line = [program, *command, "--spec", SPEC, "--jars", jar_path()]
        line += ["--conf", "spark.sql.catalogImplementation=hive"]
        variables = {
            "PGPASSWORD": self.server.password,
            "PYSPARK_PYTHON": sys.executable,
            "JDK_JAVA_OPTIONS": "-Dspark.ui.enabled=false",  # in place of the other tests' settings
        }
        if spark is not None:
            variables |= {"PYTHONPATH": str(spark), "SPARK_HOME": f"{spark}/pyspark"}
        with started(line, self._folder, **variables) as process:
            output, _ = process.communicate(timeout=3 * TIMEOUT)
            self.status = process.returncode
        output += errors_of(self._folder)
        print(output[-5000:])
        return output

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        found = pyarrow.parquet.read_table(self._folder / "spark-warehouse" / table).to_pylist()
        return sorted(found, key=lambda row: row["id"])


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with Server() as server:
        yield Pipeline(tmp_path, server)


def test_a_pipeline_goes_on_where_its_last_run_ended(pipeline: Pipeline) -> None:
    pipeline.run("run")
    assert pipeline.status == 0
    price = Decimal("19.90")
    first, second = (
        {"id": 1, "status": "new", "price": price},
        {"id": 2, "status": "new", "price": Decimal("5.00")},
    )
    assert pipeline.rows("orders") == [first, second]

    pipeline.server.execute(
        "UPDATE orders SET status = 'paid' WHERE id = 1; DELETE FROM orders WHERE id = 2;"
        "INSERT INTO orders VALUES (3, 'new', 7.50)"
    )
    pipeline.run("run")
    assert pipeline.status == 0
    assert pipeline.rows("orders") == [
        {"id": 1, "status": "paid", "price": price},
        {"id": 3, "status": "new", "price": Decimal("7.50")},
    ]
    kinds = [(row["id"], row["_change_type"]) for row in pipeline.rows("order_changes")]
    assert sorted(kinds) == [
        (1, "insert"),
        (1, "update_postimage"),
        (2, "delete"),
        (2, "insert"),
        (3, "insert"),
    ]


@pytest.mark.skipif(SPARK_4_3 is None, reason="make sparks")
def test_auto_cdc_accepts_the_changes_of_a_slot(pipeline: Pipeline) -> None:
    pipeline.use_auto_cdc()
    pipeline.run("dry-run", spark=SPARK_4_3)
    assert pipeline.status == 0
    # The page says why it cannot run.
    assert "AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE" in pipeline.run("run", spark=SPARK_4_3)
