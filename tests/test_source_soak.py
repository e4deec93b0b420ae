"""One stream of a slot, killed again and again for a long time.

The seed of `make soak` chooses what the clients write and what is killed. It does not choose the
moments, which differ from run to run.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from support.slot_kills import KILLS
from support.slot_points import POINTS, kill_at
from support.slot_proof import proven
from support.slot_stream import AVAILABLE_NOW, CONTINUOUSLY

pytestmark = pytest.mark.soak

SIZES = ("20k", "300k", "1g")


def test_soak(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    seed = pytestconfig.getoption("--seed")
    ends = time.monotonic() + pytestconfig.getoption("--soak")
    print(f"\nseed {seed}")
    dice = random.Random(seed)
    with proven(tmp_path, seed=seed) as (server, stream):
        while time.monotonic() < ends:
            stream.options["maxBytesPerTrigger"] = dice.choice(SIZES)
            stream.options["idleInterval"] = dice.choice(["10ms", "1s"])
            trigger = dice.choice([CONTINUOUSLY, CONTINUOUSLY, AVAILABLE_NOW])
            with stream.running(trigger=trigger) as process:
                if trigger is AVAILABLE_NOW:
                    assert process.outcome() == "ended"
                    continue
                for _ in range(dice.randint(0, 3)):
                    process.survives(dice.randint(1, 20))
                    kill = dice.choice(KILLS)
                    print(f"{kill.__name__} at batch {stream.committed_batch()}", flush=True)
                    kill(server)
                if process.survives(dice.randint(1, 20)):
                    point = dice.choice(POINTS[1:])
                    print(f"{point.__name__} at batch {stream.committed_batch()}", flush=True)
                    kill_at(process, stream, point)
