"""Each way to give the functions to a Spark session, in a process of its own."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support.processes import (
    ANSWER,
    PRELUDE,
    QUERY,
    REGISTER_RUNNING,
    REGISTERED_RUNNING,
    copy_of_package,
    run,
    run_python,
)
from support.servers import small_slot

STREAM = """
import json
found = spark.readStream.format("pgoutput").options(**json.loads(os.environ["SLOT"])).load()
writer = found.writeStream.format("memory").queryName("found").trigger(availableNow=True)
writer.start().awaitTermination()
print(spark.table("found").count())
"""


def dummy_jar(folder: Path, name: str) -> str:
    """Make a JAR with one entry, which has the name of the JAR."""
    path = folder / f"{name}.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(name, "")
    return str(path)


@pytest.mark.exhaustive
def test_configure_adds_the_jar_to_the_named_ones(tmp_path: Path) -> None:
    """Spark-submit alone would take only some of them. A second session needs no other JVM."""
    names = ["builder", "option", "joined", "conf", "joined-conf", "short"]
    builder, option, joined, conf, joined_conf, short = (
        dummy_jar(tmp_path, name) for name in names
    )
    arguments = (
        f"--jars {option} --name 'a name' --jars={joined} --conf spark.jars={conf} "
        f"--conf=spark.jars={joined_conf} -c spark.jars={short} pyspark-shell"
    )
    script = f"""
import json
builder = SparkSession.builder.config("spark.jars", {builder!r})
spark = spark_pgoutput.configure(builder).getOrCreate()
ask(spark)
loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
sent = spark._jsc.sc().listJars().mkString(" ")
names = {names!r}
print(json.dumps([name for name in names if loader.getResource(name) is not None]))
print(json.dumps([name for name in [*names, "spark-pgoutput"] if "/" + name + ".jar" in sent]))
spark.stop()
ask(spark_pgoutput.configure(SparkSession.builder).getOrCreate())
"""
    answer, driver, executors, again = run_python(
        PRELUDE + script,
        tmp_path,
        PYSPARK_SUBMIT_ARGS=arguments,
        PYTHONPATH=copy_of_package(tmp_path),
    )
    assert answer == again == ANSWER
    assert json.loads(driver) == names
    assert json.loads(executors) == [*names, "spark-pgoutput"]


def test_configure_keeps_the_jars_of_spark_defaults(tmp_path: Path) -> None:
    jars = [dummy_jar(tmp_path, name) for name in ("one", "other")]
    folder = tmp_path / "defaults"
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text(f"spark.jars  {','.join(jars)}\n")
    file = tmp_path / "my.conf"  # which replaces spark-defaults.conf
    file.write_text(f"spark.jars={jars[0]}\n")
    configured = 'print(spark_pgoutput.configure(SparkSession.builder)._options["spark.jars"])\n'
    script = f"""{configured}
import os
os.environ["PYSPARK_SUBMIT_ARGS"] = "--properties-file {file} pyspark-shell"
{configured}"""
    of_defaults, of_file = run_python(PRELUDE + script, tmp_path, SPARK_CONF_DIR=str(folder))
    assert of_defaults.split(",") == [*jars, spark_pgoutput.jar_path()]
    assert of_file.split(",") == [jars[0], spark_pgoutput.jar_path()]


@pytest.mark.usefixtures("spark")
def test_configure_accepts_a_jvm_that_has_the_jar() -> None:
    assert isinstance(spark_pgoutput.configure(SparkSession.builder), SparkSession.Builder)


@pytest.mark.takes_long
def test_configure_refuses_and_register_accepts_a_jvm_without_the_jar(tmp_path: Path) -> None:
    """Its executor needs the JAR too, and the driver reads what the executor answers."""
    (tmp_path / "script.py").write_text(PRELUDE + REGISTER_RUNNING + STREAM)
    with small_slot() as slot:
        output = run(
            ["spark-submit", "script.py"],
            tmp_path,
            PYTHONPATH=copy_of_package(tmp_path),
            SLOT=slot,
        )
    assert output == [*REGISTERED_RUNNING, "10"]


@pytest.mark.takes_long
def test_spark_sql_with_the_jar(tmp_path: Path) -> None:
    command = 'spark-sql --jars $(spark-pgoutput jar-path) -e "$QUERY"'
    assert run(["sh", "-c", command], tmp_path, QUERY=QUERY) == [ANSWER]


@pytest.mark.exhaustive
def test_spark_submit_with_the_jar(tmp_path: Path) -> None:
    script = """
spark = SparkSession.builder.getOrCreate()
ask(spark)
spark_pgoutput.configure(SparkSession.builder)
"""
    (tmp_path / "script.py").write_text(PRELUDE + script)
    command = "spark-submit --jars $(spark-pgoutput jar-path) script.py"
    assert run(["sh", "-c", command], tmp_path) == [ANSWER]


def test_a_spark_that_is_too_old_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    monkeypatch.setattr(type(spark), "version", "3.5.9")
    monkeypatch.setitem(vars(spark), "version", "3.5.9")  # where PySpark keeps it
    for action in (
        lambda: spark_pgoutput.configure(SparkSession.builder),
        lambda: spark_pgoutput.register(spark),
    ):
        with pytest.raises(RuntimeError, match=r"needs Spark 4.0 or newer.*this is Spark 3\.5\.9"):
            action()


def test_message_schema_is_what_decode_returns(spark: SparkSession) -> None:
    """This includes the comments, and which fields can be NULL."""
    decoded = spark.sql("SELECT pgoutput_decode(X'45') AS d")
    assert spark_pgoutput.message_schema() == decoded.schema["d"].dataType
