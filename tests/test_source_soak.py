"""Streams of a slot, killed again and again for a long time.

The seed of `make soak` chooses what the clients write and what is killed. It does not choose the
moments, which differ from run to run. A comparison has all changes in memory. So, every ten
minutes, the test compares what came out with what PostgreSQL gives, and starts with a new server.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from support.slot_kills import KILLS
from support.slot_points import POINTS, kill_at
from support.slot_proof import proven
from support.slot_stream import AVAILABLE_NOW, CONTINUOUSLY

pytestmark = pytest.mark.soak

SIZES = ("20k", "300k", "1g")
SECONDS_A_SERVER = 600


def test_each_change_comes_once_and_in_order(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    seed = pytestconfig.getoption("--seed")
    ends = time.monotonic() + pytestconfig.getoption("--soak")
    print(f"\nseed {seed}")
    done: Counter[str] = Counter()
    while (now := time.monotonic()) < ends:
        done["servers"] += 1
        folder = tmp_path / str(done["servers"])
        folder.mkdir()
        soak(folder, f"{seed} {done['servers']}", min(ends, now + SECONDS_A_SERVER), done)
        shutil.rmtree(folder)
    print(", ".join(f"{name}: {count}" for name, count in sorted(done.items())))


def soak(folder: Path, seed: str, ends: float, done: Counter[str]) -> None:
    """Kill a stream of a server until a moment, and count in `done` what was done."""
    dice = random.Random(seed)

    def note(what: Callable[..., object]) -> None:
        done[what.__name__] += 1
        print(f"{what.__name__} at batch {stream.committed_batch()}", flush=True)

    with proven(folder, seed=seed) as (server, stream):
        while time.monotonic() < ends:
            trigger = dice.choice([CONTINUOUSLY, CONTINUOUSLY, AVAILABLE_NOW])
            # A run to the end in small batches would take minutes.
            size = "10m" if trigger is AVAILABLE_NOW else dice.choice(SIZES)
            stream.options["maxBytesPerTrigger"] = size
            stream.options["idleInterval"] = dice.choice(["10ms", "1s"])
            done["starts"] += 1
            with stream.running(trigger=trigger) as process:
                if trigger is AVAILABLE_NOW:
                    assert process.outcome() == "ended"
                    continue
                for _ in range(dice.randint(0, 3)):
                    if process.survives(dice.randint(1, 20)):
                        kill = dice.choice(KILLS)
                        note(kill)
                        kill(server)
                if process.survives(dice.randint(1, 20)):
                    point = dice.choice(POINTS[1:])
                    note(point)
                    kill_at(process, stream, point)
