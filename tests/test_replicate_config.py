"""A job whose options are in one file: the commands and Python read it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake
from support.job_folder import job_state
from support.lake_job import SETTINGS, LakeJob
from support.processes import TIMEOUT, errors_of, started
from support.servers import Server, server_fixture

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(
    "CREATE SCHEMA sales;"
    "CREATE TABLE a (id int PRIMARY KEY, v numeric); INSERT INTO a VALUES (1, 1.5), (2, 2.5);"
    "CREATE TABLE sales.b (id int PRIMARY KEY, v text); INSERT INTO sales.b VALUES (1, 'a');"
    "CREATE PUBLICATION ab FOR TABLE a, sales.b"
)


def test_the_commands_and_python_read_one_file(
    spark: SparkSession, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = LakeJob(tmp_path, server, "iceberg", publication="ab")
    settings = {**SETTINGS, **lake.settings(tmp_path, lake.ICEBERG), **job.catalog}
    options = {name: value for name, value in job.options.items() if name not in ("names", "mode")}
    file = tmp_path / "job.yaml"
    content = {
        **{name: value for name, value in options.items() if name != "url"},
        "url": server.jdbc_url.replace("127.0.0.1", "$SHOP_HOST"),
        "password": "$SHOP_PASSWORD",
        "tables": {
            "a": {"types": {"v": "DECIMAL(9,2)"}},
            "sales.b": {"name": "sold", "mode": "history"},
        },
        "spark": {**settings, "spark.master": "local[2]", "spark.test.secret": "$SHOP_PASSWORD"},
    }
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    monkeypatch.delenv("PGPASSWORD", raising=False)
    environment = {"SHOP_PASSWORD": server.password, "SHOP_HOST": "127.0.0.1"}

    def run(command: str, *arguments: str, status: int = 0) -> str:
        line = [sys.executable, "-m", "spark_pgoutput", command, "--config", str(file), *arguments]
        with started(line, tmp_path, **environment) as process:
            output, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode == status, output + errors_of(tmp_path)
        return output

    run("replicate", "--once")
    shown = run("status")
    assert re.search(r"public\.a +mirror +live", shown), shown
    assert re.search(r"sales\.b +history +live", shown), shown
    assert "The slot is reserved" in shown  # the file has the server and the slot, too
    # A history is not compared, so the exit status is 3.
    shown = run("verify", "--once", "--option", "interval=2s", status=3)
    assert re.search(r"public\.a +equal", shown), shown
    assert "copies public.a again" in run("resync", "--table", "public.a")
    server.execute("UPDATE a SET v = 7 WHERE id = 1; DELETE FROM sales.b")

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    job.use(spark)
    with pytest.warns(UserWarning, match=r"lacks settings of the config file: .*spark\.test"):
        done = spark_pgoutput.replicate(spark, config=file, once=True)
    done.awaitTermination()
    assert done.exit_code == 0
    rows = spark.sql(f"SELECT id, CAST(v AS STRING) FROM {job.sql_name('a')} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "7.00"), (2, "2.50")]
    assert spark.table(job.sql_name("sold")).count() == 2  # the snapshot and the delete
    assert set(job_state(job.checkpoint).tables) == {"a", "sold"}
    with pytest.warns(UserWarning, match="lacks settings of the config file"):
        found = spark_pgoutput.verify(
            spark, checkpoint=job.checkpoint_url, config=file, once=True
        ).collect()
    assert {row.table: row.result for row in found} == {"public.a": "equal", "sales.b": "skipped"}
