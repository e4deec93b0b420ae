"""Reads the checkpoint folder of a job that keeps tables equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.lsn import parsed_lsn


class JobState:
    """The state of a job, as the file of the newest epoch has it.

    Parameters
    ----------
    epoch : int
        The epoch; 0 if there is no state.
    content : dict
        The JSON of the file.
    """

    def __init__(self, epoch: int, content: dict[str, Any]) -> None:
        self.epoch = epoch
        self.content = content
        #: The state of each table, by its name in the target.
        self.tables: dict[str, dict[str, Any]] = {
            table["target"]: table for table in content.get("tables", ())
        }

    @property
    def confirmed(self) -> int:
        """The highest LSN that the job can have confirmed to the server."""
        return parsed_lsn(self.content["confirmed"]) if self.content else 0

    def status(self, table: str) -> str | None:
        """Return the status of a table; None if the state does not have it."""
        return self.tables[table]["status"]["name"] if table in self.tables else None

    def is_altered(self, table: str) -> bool:
        """Return whether the columns of a table are being changed."""
        return "next" in self.tables.get(table, ())

    def definition(self, table: str) -> tuple[int, int]:
        """Return the number of the last copy, and that of the last change of columns that ended."""
        return self.tables[table]["generation"], self.tables[table]["number"]

    def has_snapshot(self, table: str) -> bool:
        """Return whether a table is being copied, and the LSN of its snapshot is known."""
        return "lsn" in self.tables.get(table, {"status": {}})["status"]

    def mark(self, table: str) -> int:
        """Return the mark of a table in the state; 0 if there is none."""
        return parsed_lsn(self.tables.get(table, {}).get("mark", "0/0"))


def state_files(checkpoint: Path) -> list[Path]:
    """Return the files of all epochs, the newest last."""
    return sorted((checkpoint / "state").glob("[0-9]*.json"))


def job_state(checkpoint: Path) -> JobState:
    """Read the state of a job."""
    while files := state_files(checkpoint):
        try:
            return JobState(int(files[-1].stem), json.loads(files[-1].read_bytes()))
        except FileNotFoundError:  # a later process has removed it since
            continue
    return JobState(0, {})


def job_status(checkpoint: Path) -> dict[str, Any]:
    """Read the file that a job writes every 10 seconds for the command `status`."""
    file = checkpoint / "status.json"
    found: dict[str, Any] = json.loads(file.read_bytes()) if file.exists() else {}
    return found
