"""What configure keeps of existing settings. This does not depend on the version of Spark."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from support.processes import (
    ANSWER,
    CONNECT,
    PRELUDE,
    REGISTER_RUNNING,
    REGISTERED_RUNNING,
    run,
    run_python,
)


def test_spark_jars_of_a_new_session(tmp_path: Path) -> None:
    script = """
builder = SparkSession.builder.config("spark.jars", spark_pgoutput.jar_path())
ask(builder.getOrCreate())
"""
    assert run_python(PRELUDE + script, tmp_path) == [ANSWER]


def dummy_jar(folder: Path, name: str) -> str:
    """Make a JAR with one entry, which has the JAR's name."""
    path = folder / f"{name}.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(name, "")
    return str(path)


# Prints the JARs that the driver has, and the JARs that it sends to executors.
SHOW_JARS = """
import json
builder = SparkSession.builder
if {on_builder!r}:
    builder = builder.config("spark.jars", {on_builder!r})
spark = spark_pgoutput.configure(builder).getOrCreate()
ask(spark)
loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
sent = spark._jsc.sc().listJars().mkString(" ")
names = {names!r}
print(json.dumps(dict(
    driver=[name for name in names if loader.getResource(name) is not None],
    executors=[name for name in [*names, "spark-pgoutput"] if "/" + name + ".jar" in sent],
)))
"""


def jars_of_configured(
    folder: Path, names: list[str], on_builder: str | None, **environment: str
) -> Any:  # noqa: ANN401
    script = SHOW_JARS.format(names=names, on_builder=on_builder)
    answer, jars = run_python(PRELUDE + script, folder, **environment)
    assert answer == ANSWER
    return json.loads(jars)


def test_configure_keeps_jars_of_builder_and_submit_arguments(tmp_path: Path) -> None:
    """Whatever the syntax: spark-submit alone would keep only some of these JARs."""
    names = ["builder", "option", "joined", "conf", "joined-conf", "short"]
    builder, option, joined, conf, joined_conf, short = (
        dummy_jar(tmp_path, name) for name in names
    )
    arguments = (
        f"--jars {option} --name 'a name' --jars={joined} --conf spark.jars={conf} "
        f"--conf=spark.jars={joined_conf} -c spark.jars={short} pyspark-shell"
    )
    jars = jars_of_configured(tmp_path, names, builder, PYSPARK_SUBMIT_ARGS=arguments)
    assert jars == {"driver": names, "executors": [*names, "spark-pgoutput"]}


def test_configure_keeps_jars_of_spark_defaults(tmp_path: Path) -> None:
    names = ["one", "other"]
    paths = ",".join(dummy_jar(tmp_path, name) for name in names)
    folder = tmp_path / "defaults"
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text(f"spark.ui.enabled=false\nspark.jars  {paths}\n")
    jars = jars_of_configured(tmp_path, names, None, SPARK_CONF_DIR=str(folder))
    assert jars == {"driver": names, "executors": [*names, "spark-pgoutput"]}


def test_configure_refuses_and_register_takes_a_jvm_that_spark_submit_started(
    tmp_path: Path,
) -> None:
    (tmp_path / "script.py").write_text(PRELUDE + REGISTER_RUNNING)
    command = ["spark-submit", "script.py"]
    assert run(command, tmp_path) == REGISTERED_RUNNING


def test_configure_connect_server_in_the_same_process(tmp_path: Path) -> None:
    """SPARK_TESTING lets the server choose a free port."""
    script = CONNECT.format(url="local[1]") + "ask(spark)"
    assert run_python(PRELUDE + script, tmp_path, SPARK_TESTING="1") == [ANSWER]
