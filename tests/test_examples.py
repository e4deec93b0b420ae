"""The files in examples/ name what exists, and linters that need no network accept them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_pgoutput.cli import parse
from support.documentation import ROOT

EXAMPLES = ROOT / "examples"
ALERTS = EXAMPLES / "prometheus-rules.yaml"
DASHBOARD = EXAMPLES / "grafana-dashboard.json"
SERVICE = EXAMPLES / "spark-pgoutput.service"
BIN = Path(sys.executable).parent


def documents(file: Path) -> list[Any]:
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def run(*command: object) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def texts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Return all texts in a JSON value, each with the nearest name above it."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from texts(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one, name)


@pytest.mark.parametrize("file", [ALERTS, DASHBOARD], ids=lambda file: file.name)
def test_monitors_name_metrics_that_a_job_has(file: Path, spark: SparkSession) -> None:
    metrics: Any = spark._jvm.io.sparkpgoutput.lake.job.JobMetrics  # type: ignore[union-attr]
    known = set(re.findall(r"`(spark_pgoutput_\w+)`", metrics.markdown()))
    used = set(re.findall(r"spark_pgoutput_\w+", file.read_text(encoding="utf-8")))
    assert used, file
    assert used <= known, used - known
    if file == DASHBOARD:
        assert {name.removeprefix("spark_pgoutput_") for name in known - used} <= {
            "table_queue_changes",
            "waiting",
        }


def test_there_are_alerts_for_jobs_tables_and_slots_in_trouble() -> None:
    (group,) = documents(ALERTS)[0]["groups"]
    assert {rule["alert"] for rule in group["rules"]} >= {
        "PgoutputJobGone",
        "PgoutputTableFailed",
        "PgoutputTableLag",
        "PgoutputSlotWal",
    }
    for rule in group["rules"]:
        assert rule["annotations"]["summary"], rule


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
def test_promtool_accepts_the_alerts() -> None:
    run("promtool", "check", "rules", ALERTS)


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    places = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_dockerfile_has_no_lint() -> None:
    run(BIN / "hadolint", EXAMPLES / "Dockerfile")


def test_the_schemas_of_kubernetes_accept_the_manifest() -> None:
    run(BIN / "kubernetes-validate", "--strict", EXAMPLES / "kubernetes.yaml")


def test_the_schema_of_compose_accepts_the_file() -> None:
    schema = "vendor.compose-spec"
    run(BIN / "check-jsonschema", "--builtin-schema", schema, EXAMPLES / "compose.yaml")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / SERVICE.name
    text = SERVICE.read_text(encoding="utf-8")
    # The command must exist.
    unit.write_text(text.replace("/opt/spark-pgoutput/bin/spark-pgoutput", sys.executable))
    run("systemd-analyze", "verify", unit)


def commands() -> Iterator[list[str]]:
    """Return the arguments of spark-pgoutput in all examples."""
    deployment = documents(EXAMPLES / "kubernetes.yaml")[1]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    yield container["args"]
    for probe in ("startupProbe", "livenessProbe"):
        yield container[probe]["exec"]["command"][1:]
    replicate = documents(EXAMPLES / "compose.yaml")[0]["services"]["replicate"]
    yield replicate["command"]
    yield replicate["healthcheck"]["test"][2:]
    service = SERVICE.read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^ExecStart=(.+)$", service, re.M)
    yield shlex.split(line)[1:]


@pytest.mark.parametrize("arguments", list(commands()), ids=lambda arguments: arguments[0])
def test_commands_of_the_examples_have_arguments_that_exist(arguments: list[str]) -> None:
    parse(arguments)


def test_a_probe_reads_the_status_file_that_the_job_writes() -> None:
    for job, *probes in ([*commands()][:3], [*commands()][3:5]):
        (file,) = (argument for argument in job if argument.startswith("--status-file="))
        for probe in probes:
            assert file in probe
            assert "--check" in probe


def test_the_manifest_never_runs_two_jobs() -> None:
    spec = documents(EXAMPLES / "kubernetes.yaml")[1]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_image_has_the_versions_that_are_tested() -> None:
    dockerfile = (EXAMPLES / "Dockerfile").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    delta = re.search(r"^DELTA := (\S+)$", makefile, re.M)
    iceberg = re.search(r"org\.apache\.iceberg:iceberg-spark-runtime-\S+", makefile)
    spark = re.search(r'"pyspark\[connect\](==\S+?)"', (ROOT / "pyproject.toml").read_text())
    assert delta
    assert iceberg
    assert spark
    for wanted in (f"io.delta:delta-spark_4.1_2.13:{delta[1]},", f"{iceberg[0]},", spark[1]):
        assert wanted in dockerfile


@pytest.mark.parametrize("file", ["kubernetes.yaml", "compose.yaml"])
def test_each_secret_is_a_placeholder(file: str) -> None:
    found = list(texts(documents(EXAMPLES / file)))
    secrets = [text for name, text in found if re.search("PASSWORD|SECRET|KEY", name)]
    assert secrets
    assert {*secrets} <= {"change-me", "change-me-too"}
    for _, text in found:
        assert not re.search(r"AKIA|BEGIN .*PRIVATE KEY", text)
