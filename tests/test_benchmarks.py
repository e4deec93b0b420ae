"""The benchmarks use the right messages, and compute the right numbers from the seconds."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import benchmarks
from benchmarks import replicate
from benchmarks.corpus import as_streamed, corpus, read_messages, repeated
from benchmarks.job_measures import Run, Sizes
from benchmarks.jobs import Version, cpu_of
from benchmarks.orders import orders, orders_file, shuffled_orders
from benchmarks.queries import (
    ALTERNATIVES,
    CHANGES,
    DECODING,
    FULL,
    HANDED_OVER,
    IN_STREAM_GIVEN,
    IN_STREAM_LEFT_OUT,
    SHUFFLED_CHANGES,
    TABLE_CHANGES,
)
from benchmarks.reader import Commit, Seen, commit_lag, lag_of, lags_at
from benchmarks.report import report
from benchmarks.results import Measurement, Results
from support.servers import wait_until

reads_orders = pytest.mark.skipif(
    not hasattr(DataFrame, "repartitionById"), reason="repartitionById is new in Spark 4.1"
)


@pytest.fixture(scope="module")
def messages() -> list[bytes]:
    return read_messages()


@pytest.mark.exhaustive
def test_corpus_is_decoded_and_wide_enough(spark: SparkSession, messages: list[bytes]) -> None:
    assert len(messages) == 71_629
    decoded = corpus(spark, messages).selectExpr("pgoutput_decode(data) AS d")
    rows = decoded.groupBy("d.type").agg({"*": "count"}).collect()
    assert {type_name[0].encode(): count for type_name, count in rows} == Counter(
        message[:1] for message in messages
    )
    assert decoded.where("size(d.new.text) <= 3").isEmpty()  # or d.new.text[3] would be an error


def test_streamed_messages_have_the_xid_of_their_transaction() -> None:
    begin = bytes.fromhex("42" + "00" * 16 + "00000316")
    insert = bytes.fromhex("4900004010")
    assert list(as_streamed([begin, insert, b"C"])) == [
        (begin, False),
        (bytes.fromhex("490000031600004010"), True),
        (b"C", False),
    ]


@pytest.mark.exhaustive
def test_streamed_messages_are_decoded_alike_with_in_stream_given_and_left_out(
    spark: SparkSession, messages: list[bytes]
) -> None:
    decoded = corpus(spark, messages[:4000] + messages[-1000:]).selectExpr(
        "in_stream",
        "pgoutput_decode(data) AS d",
        "pgoutput_decode(data_streamed, in_stream) AS given",
        "pgoutput_decode(data_streamed) AS left_out",
    )
    changes = decoded.where("in_stream")
    assert decoded.where("NOT given <=> left_out").isEmpty()
    assert changes.where("given.xid IS NULL OR d.xid IS NOT NULL").isEmpty()
    assert changes.where("NOT struct(given.new, given.old) <=> struct(d.new, d.old)").isEmpty()
    assert changes.count() > 4000


def test_corpus_is_repeated_in_its_order(spark: SparkSession) -> None:
    table = repeated(spark, corpus(spark, [b"B", b"E", b"C"]), 7, 2)
    assert table.rdd.getNumPartitions() == 2
    assert b"".join(row.data for row in table.collect()) == b"BECBECB"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    orders_file(5_000, folder)
    return folder


@pytest.mark.exhaustive
def test_orders_are_transactions_of_a_few_changes_and_are_made_once(cache: Path) -> None:
    made = orders_file(5_000, cache)
    written = made.stat().st_mtime_ns
    table = pq.read_table(orders_file(5_000, cache))
    assert made.stat().st_mtime_ns == written
    assert [file.name for file in cache.iterdir()] == [made.name]
    assert table["seq"].to_pylist() == list(range(5_000))
    tags = Counter(message[:1].decode() for message in table["data"].to_pylist())
    assert set(tags) == set("BRIUDC")
    assert tags["I"] > tags["U"] > tags["D"] > 100
    assert 6 < (tags["I"] + tags["U"] + tags["D"]) / tags["C"] < 10


@pytest.mark.exhaustive
@reads_orders
def test_orders_are_read_in_order_and_shuffled_over_the_cores(
    spark: SparkSession, cache: Path
) -> None:
    in_order = orders(spark, 5_000, 2, cache).rdd.map(lambda row: row.seq).glom().collect()
    assert in_order == [list(range(2_500)), list(range(2_500, 5_000))]
    shuffled = shuffled_orders(spark, 5_000, 2, cache).rdd.map(lambda row: row.seq).glom().collect()
    assert [len(part) for part in shuffled] == [2_500, 2_500]
    assert all(part != sorted(part) for part in shuffled)
    assert sorted(seq for part in shuffled for seq in part) == list(range(5_000))


@pytest.mark.exhaustive
@reads_orders
def test_table_changes_are_all_changes_that_were_committed(
    spark: SparkSession, cache: Path
) -> None:
    messages = orders(spark, 5_000, 2, cache)
    messages.createOrReplaceTempView("orders")
    shuffled_orders(spark, 5_000, 2, cache).createOrReplaceTempView("shuffled_orders")
    tags = [row.data[:1].decode() for row in messages.collect()]
    last_commit = len(tags) - tags[::-1].index("C")
    committed = sum(tag in "IUD" for tag in tags[:last_commit])
    for query in TABLE_CHANGES:
        assert spark.sql(query.sql).count() == committed, query.name
    typed = spark.sql(CHANGES.sql)
    assert typed.exceptAll(spark.sql(SHUFFLED_CHANGES.sql)).isEmpty()
    assert typed.where("note IS NULL AND _change_type <> 'delete'").isEmpty()


def _results() -> Results:
    def measurement(query_seconds: float, rows: int = 1_500_000, cores: int = 1) -> Measurement:
        return Measurement(FULL, cores, rows, [query_seconds, 9.0], [0.5, 0.1])

    return Results(
        {"CPU": "Z80, 2 cores", "Spark": "4.0.0"},
        [
            measurement(0.12, rows=200_000),
            measurement(0.4),
            measurement(0.2, cores=2),
            Measurement(HANDED_OVER, 1, 1_500_000, [0.13], [0.1]),
            Measurement(DECODING[2], 1, 1_500_000, [0.16], [0.1]),
            Measurement(IN_STREAM_GIVEN, 1, 1_500_000, [0.4], [0.1]),
            Measurement(IN_STREAM_LEFT_OUT, 1, 1_500_000, [0.52], [0.1]),
            Measurement(ALTERNATIVES[0], 1, 1_500_000, [3.1], [0.1]),
            Measurement(ALTERNATIVES[1], 1, 100_000, [4.1], [0.1]),
            Measurement(CHANGES, 1, 1_500_000, [1.8, 1.2], []),
            Measurement(CHANGES, 1, 6_000_000, [6.0], []),
            Measurement(CHANGES, 2, 1_500_000, [0.75], []),
            Measurement(CHANGES, 2, 6_000_000, [3.3], []),
            Measurement(SHUFFLED_CHANGES, 1, 1_500_000, [4.5], []),
        ],
    )


def test_measurement_is_the_best_time_per_core_without_the_scan() -> None:
    measurement = Measurement(FULL, 2, 1_000_000, [0.4, 0.3, 0.7], [0.2, 0.1, 0.1])
    assert measurement.nanoseconds == pytest.approx(400)
    assert measurement.median_nanoseconds == pytest.approx(600)
    assert measurement.million_messages_per_second == pytest.approx(1 / 0.3)


def test_measurement_without_a_scan_is_the_whole_time() -> None:
    measurement = Measurement(CHANGES, 2, 1_000_000, [0.4, 0.3, 0.7], [])
    assert measurement.nanoseconds == pytest.approx(600)
    assert measurement.median_nanoseconds == pytest.approx(800)


def test_report_shows_what_was_measured() -> None:
    lines = report(_results()).splitlines()
    assert lines[0] == "CPU: Z80, 2 cores. Spark: 4.0.0."
    for line in (
        "| Query | 0.2 M, 1 core | 1.5 M, 1 core | 0.2 M, 2 cores | 1.5 M, 2 cores |",
        "| `length(data)`, nothing decoded |  | 20 |  |  |",
        "| `pgoutput_decode(data)` | 100 | 200 |  | 133 |",
        "| `pgoutput_decode(data).type` |  | 40 |  |  |",
        "| `pgoutput_decode(data)` | 1.67 | 3.75 |  | 7.50 |",
        "| `pgoutput_decode(data, in_stream)`, in a stream | 200 |  |",
        "| `pgoutput_decode(data)` | 1,500,000 | 200 | 133 | 1 |",
        "| `from_json`, for changes that are JSON already | 1,500,000 | 2,000 |  | 10 |",
        "| pandas UDF with the decoders of pypgoutput | 100,000 | 40,000 |  | 200 |",
        "| Query | 1.5 M, 1 core | 6 M, 1 core | 1.5 M, 2 cores | 6 M, 2 cores |",
        "| `pgoutput_changes`, 9 columns | 800 | 1,000 | 1,000 | 1,100 |",
        "| `pgoutput_changes`, 9 columns, shuffled messages | 3,000 |  |  |  |",
        "| `pgoutput_changes`, 9 columns: speedup over 1 core |  |  | 1.60 | 1.82 |",
    ):
        assert line in lines


def test_stored_results_can_be_read_again() -> None:
    assert Results.from_json(_results().to_json()) == _results()


def test_stored_report_has_the_stored_numbers() -> None:
    output = Path(benchmarks.__file__).parent / "output"
    stored = Results.from_json((output / "queries.json").read_text(encoding="utf-8"))
    assert report(stored) == (output / "queries.md").read_text(encoding="utf-8")


def test_raw_numbers_are_kept() -> None:
    first = json.loads(_results().to_json())["measurements"][0]
    assert first["seconds"] == [0.12, 9.0]
    assert first["best_nanoseconds"] == pytest.approx(100)
    assert first["query"]["sql"] == FULL.sql


def test_lag_is_how_old_the_newest_change_is_that_a_reader_sees() -> None:
    seen = [Seen(10.0, 9.5), Seen(12.0, 11.9)]
    assert list(lags_at(seen, [9.0, 10.0, 11.5, 12.5])) == pytest.approx([0.5, 2.0, 0.6])


def test_lag_of_a_change_ends_with_the_version_that_has_it() -> None:
    seen = [Seen(10.0, 9.5), Seen(12.0, 11.9), Seen(13.0, 12.9)]
    assert lag_of(seen, 9.5, 9.6) == pytest.approx(0.4)
    assert lag_of(seen, 9.6, 9.7) == pytest.approx(2.3)
    assert lag_of(seen, 13.0, 13.1) == math.inf


def test_lag_of_a_change_ends_with_the_commit_whose_mark_is_above_it() -> None:
    commits = [Commit(10.0, 500), Commit(12.0, 700)]
    assert commit_lag(commits, 499, 9.6) == pytest.approx(0.4)
    assert commit_lag(commits, 500, 9.7) == pytest.approx(2.3)
    assert commit_lag(commits, 700, 11.9) == math.inf


def test_comparison_shows_medians_of_rounds_and_their_ratio() -> None:
    found = {
        "delta": {"old": [{"lag": 8.0}, {"lag": 2000.0}, {"lag": 10.0}], "new": [{"lag": 2.5}]},
        "iceberg": {"old": [], "new": [{"lag": 1.0}]},
    }
    assert replicate.markdown("idle", found).splitlines() == [
        "| idle | format | old | new | new/old |",
        "|---|---|---:|---:|---:|",
        "| lag | delta | 10 | 2.5 | 0.25 |",
        "| lag | iceberg | – | 1 | – |",
    ]


def test_comparison_alternates_and_goes_on_when_a_run_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []

    def measure(run: Run) -> dict[str, float]:
        runs.append(run.version.name)
        assert run.folder.is_dir()
        if run.version.name == "old":
            raise RuntimeError("The old version fails.")
        return {"seconds": 2.0}

    monkeypatch.setattr(replicate, "MEASURES", {"idle": measure})
    versions = [Version("old", tmp_path), Version("new", tmp_path)]
    (table,) = replicate.compare(["idle"], versions, ["delta"], Sizes(), 2, tmp_path)
    assert runs == ["old", "new", "new", "old"]
    assert "| seconds | delta | – | 2 | – |" in table
    assert not list(tmp_path.iterdir())


def test_jobs_take_the_package_of_their_version(tmp_path: Path) -> None:
    wheel = tmp_path / "old.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("spark_pgoutput/__init__.py", "print('of the wheel')")
    version = Version.of_wheel("old", wheel, tmp_path)
    script = [sys.executable, "-c", "import spark_pgoutput"]
    printed = subprocess.run(script, env=version.environment, check=True, capture_output=True)
    assert printed.stdout == b"of the wheel\n"


def test_cpu_time_includes_that_of_processes_that_have_ended() -> None:
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}]); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        wait_until(lambda: cpu_of(process.pid) >= 0.3)
        assert process.poll() is None
        process.communicate(b"\n")
