"""The installed Spark and Delta have all that the JAR calls.

The JAR is compiled for Spark 4.0, and for Delta on Spark 4.0.
"""

from __future__ import annotations

from pathlib import Path

import pyspark

from spark_pgoutput.jar import jar_path
from support.class_files import Jars

# The classes of Spark itself. The other classes in its folder belong to libraries.
SPARK = "org/apache/spark/"
DELTA = "org/apache/spark/sql/delta/"

JAR = Path(jar_path())
OURS = Jars([JAR])
SPARK_JARS = sorted(Path(pyspark.__file__).parent.joinpath("jars").glob("*.jar"))
DELTA_JARS = sorted(Path(__file__).parents[1].joinpath(".lake").glob("delta-*.jar"))


def is_of(package: str, owner: str) -> bool:
    """Return whether a class is in a package, or extends a class in it."""
    ours = OURS.of(owner)
    if ours is None:
        return owner.startswith(package)
    return any(is_of(package, other) for other in ours.supers)


def missing(jars: Jars, package: str) -> tuple[int, set[str]]:
    """Return the number of members of a package that the JAR calls, and those that are missing."""
    found = set()
    calls = 0
    for name in OURS.names():
        ours = OURS.of(name)
        assert ours is not None
        for owner, member in ours.references():
            if is_of(package, owner):
                calls += 1
                # The compiler forwards each method of a trait to a static one, whether somebody
                # calls it or not.
                is_forwarded = member.name.endswith("$") and member.name != "MODULE$"
                if jars.of(owner) and not is_forwarded and not jars.has(owner, member):
                    text = f"{owner}.{member.name}{member.descriptor}"
                    found.add(f"{text}, called by {name}")
    return calls, found


def test_spark_has_all_that_the_jar_calls() -> None:
    # A class that no JAR of Spark has is one of Delta.
    calls, found = missing(Jars(SPARK_JARS), SPARK)
    assert calls > 1000
    assert not found, "\n".join(sorted(found))


def test_delta_has_all_that_the_jar_calls() -> None:
    jars = Jars([*SPARK_JARS, *DELTA_JARS, JAR])
    calls, found = missing(jars, DELTA)
    absent = {
        owner
        for name in OURS.names()
        for owner, _ in OURS.of(name).references()  # type: ignore[union-attr]
        if owner.startswith(DELTA) and jars.of(owner) is None
    }
    assert calls > 200
    assert not absent, "\n".join(sorted(absent))
    assert not found, "\n".join(sorted(found))
