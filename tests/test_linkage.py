"""The installed Spark has all that the JAR calls. The JAR is compiled for Spark 4.0."""

from __future__ import annotations

from pathlib import Path

import pyspark

from spark_pgoutput.jar import jar_path
from support.class_files import Jars

# The classes of Spark itself. The other classes in its folder belong to libraries.
SPARK = "org/apache/spark/"


def test_spark_has_all_that_the_jar_calls() -> None:
    ours = Jars([Path(jar_path())])
    spark = Jars(Path(pyspark.__file__).parent.joinpath("jars").glob("*.jar"))
    missing = set()
    calls = 0
    for name in ours.names():
        found = ours.of(name)
        assert found is not None
        for owner, member in found.references():
            if owner.startswith(SPARK) and ours.of(owner) is None:
                calls += 1
                # A class that no JAR of Spark has is one of Delta. The compiler forwards each
                # method of a trait to a static one, whether somebody calls it or not.
                is_forwarded = member.name.endswith("$")
                if spark.of(owner) and not is_forwarded and not spark.has(owner, member):
                    text = f"{owner}.{member.name}{member.descriptor}"
                    missing.add(f"{text}, called by {name}")
    assert calls > 1000
    assert not missing, "\n".join(sorted(missing))
