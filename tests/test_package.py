"""The source distribution and the wheel, and what the installed package says about itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import spark_pgoutput

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, REPOSITORY],
        check=True,
        capture_output=True,
    )  # without further options: the wheel is built from the source distribution
    assert len(list(folder.glob("spark_pgoutput-*.tar.gz"))) == 1
    (file,) = folder.glob("spark_pgoutput-*-py3-none-any.whl")
    return zipfile.ZipFile(file)


@pytest.mark.takes_long
def test_wheel_has_one_jar_and_no_spark(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    jars = [name for name in names if name.endswith(".jar")]
    assert jars == ["spark_pgoutput/jars/spark-pgoutput.jar"]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"spark_pgoutput"}
    assert "spark_pgoutput/py.typed" in names
    with wheel.open(jars[0]) as file, zipfile.ZipFile(file) as jar:
        files = [name for name in jar.namelist() if not name.endswith("/")]
    ours = ("io/sparkpgoutput/", "org/apache/spark/sql/pgoutput/", "META-INF/")
    assert all(name.startswith(ours) for name in files)
    assert not [name for name in files if name.endswith("module-info.class")]
    assert "io/sparkpgoutput/message-schema.json" in files


def test_jar_has_pgjdbc_under_another_name_with_its_licences() -> None:
    with zipfile.ZipFile(REPOSITORY / "python/spark_pgoutput/jars/spark-pgoutput.jar") as jar:
        files = {name for name in jar.namelist() if not name.endswith("/")}
        contents = {name: jar.read(name) for name in files}
    assert "io/sparkpgoutput/shaded/postgresql/Driver.class" in files
    # It has no file java.sql.Driver, so that Spark's JDBC source finds its own driver.
    services = {Path(name).name for name in files if name.startswith("META-INF/services/")}
    sources = REPOSITORY / "jvm/src/main/resources/META-INF/services"
    assert services == {path.name for path in sources.iterdir()}
    licences = {name.split("/")[2] for name in files if name.startswith("META-INF/licenses/")}
    assert licences == {"com.ongres.scram", "com.ongres.stringprep", "org.postgresql"}
    # A string can name a class too. If a space precedes the name, the string is a text of a log.
    for name, content in contents.items():
        if name.endswith(".class"):
            assert not re.search(rb"(?<! )org[./]postgresql[./]", content), name


@pytest.mark.takes_long
def test_wheel_needs_little_and_offers_extras(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = HeaderParser().parsestr(wheel.read(name).decode())
    assert set(metadata.get_all("Provides-Extra", [])) == {"spark", "demo"}
    needed = metadata.get_all("Requires-Dist", [])
    assert [each for each in needed if "extra ==" not in each] == ["pyyaml>=6"]
    assert metadata["License-Expression"] == "Apache-2.0 AND BSD-2-Clause"  # pgjdbc has the second
    for file in ("LICENSE", "NOTICE"):
        assert any(name.endswith(f"licenses/{file}") for name in wheel.namelist())


@pytest.mark.parametrize("module", ["spark_pgoutput", "spark_pgoutput.cli"])
def test_version_is_the_one_in_pyproject(module: str) -> None:
    found = re.search(r'^version = "(.+)"$', (REPOSITORY / "pyproject.toml").read_text(), re.M)
    assert found is not None
    assert spark_pgoutput.__version__ == found[1]
    command = [sys.executable, "-m", module, "--version"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed == f"spark-pgoutput {found[1]}\n"


def test_jar_path_needs_no_pyspark(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ModuleNotFoundError('pyspark')")
    command = [sys.executable, "-m", "spark_pgoutput", "jar-path"]
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths}
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert printed.stdout == f"{spark_pgoutput.jar_path()}\n"


def test_dir_lists_what_the_package_offers() -> None:
    """This includes what is only imported on first use, so that shells complete the names."""
    assert {*spark_pgoutput.__all__, "__version__", "functions"} <= set(dir(spark_pgoutput))
    assert all(getattr(spark_pgoutput, name) for name in dir(spark_pgoutput))
    with pytest.raises(AttributeError, match="decode_all"):
        spark_pgoutput.decode_all  # noqa: B018
