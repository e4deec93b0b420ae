"""The status of a job, made by hand, in the format in which a job writes it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any


def declared(name: str, prometheus: str, kind: str = "gauge") -> dict[str, str]:
    """Return a metric as a status declares it."""
    return {"name": name, "prometheus": prometheus, "type": kind, "help": f"About {name}."}


def table_of_status(schema: str, name: str, **values: object) -> dict[str, Any]:
    """Return a live table without changes, or one with other values."""
    return {
        "table": f"{schema}.{name}",
        "target": name,
        "mode": "mirror",
        "state": "live",
        "reason": None,
        "since": None,
        "next_try": None,
        "lsn": "1/A0",
        "last_change": "2026-11-22T12:00:00.123456Z",
        "lag": 0.0,
        "queue_changes": 0,
        "queue_bytes": 0,
        "files": 9,
        "deleted_rows": 1,
        "rewritten_bytes": 0,
        "last_rewrite": None,
        "oid": 16384,
        "labels": {"schema": schema, "table": name},
        "values": {"lagSeconds": 0.0, "commits": 7},
        **values,
    }


def status_of(*tables: dict[str, Any], **values: object) -> dict[str, Any]:
    """Return the status of a job that reads its slot and has just written the status."""
    return {
        "version": 1,
        "written": datetime.now(timezone.utc).isoformat().replace("+00:00", "Z"),
        "slot": "lake",
        "problem": None,
        "read": "1/A0",
        "waits": [],
        "metrics": {
            "job": [declared("reading", "spark_pgoutput_reading")],
            "table": [
                declared("lagSeconds", "spark_pgoutput_table_lag_seconds"),
                declared("commits", "spark_pgoutput_table_commits_total", "counter"),
            ],
        },
        "values": {"reading": 1},
        "tables": list(tables),
        **values,
    }
