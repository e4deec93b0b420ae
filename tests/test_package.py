"""What is handed out: the source distribution, and the wheel that is built from it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    repository = Path(__file__).parents[1]
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, repository],
        check=True,
        capture_output=True,
    )  # without further options: the wheel is built from the source distribution
    assert len(list(folder.glob("spark_pgoutput-*.tar.gz"))) == 1
    (file,) = folder.glob("spark_pgoutput-*-py3-none-any.whl")
    return zipfile.ZipFile(file)


def test_wheel_has_one_jar_and_no_spark(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    jars = [name for name in names if name.endswith(".jar")]
    assert jars == ["spark_pgoutput/jars/spark-pgoutput.jar"]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"spark_pgoutput"}
    assert "spark_pgoutput/py.typed" in names
    with wheel.open(jars[0]) as file, zipfile.ZipFile(file) as jar:
        classes = [name for name in jar.namelist() if name.endswith(".class")]
        ours = ("io/sparkpgoutput/", "org/apache/spark/sql/pgoutput/")
        assert classes
        assert all(name.startswith(ours) for name in classes)


def test_wheel_needs_nothing_and_offers_extras(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = HeaderParser().parsestr(wheel.read(name).decode())
    assert set(metadata.get_all("Provides-Extra", [])) == {"spark", "demo"}
    assert all("extra ==" in needed for needed in metadata.get_all("Requires-Dist", []))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
