"""Processes that a test stops at one moment, to look at what they have done so far."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from support.processes import TIMEOUT
from support.servers import wait_until


def suspend_when(process: int, holds: Callable[[], object], pause: float = 0.002) -> None:
    """Stop the processes of a group when a condition holds, and it still holds after that.

    The condition can be over before the processes have stopped. Then they go on until it holds
    again.

    Parameters
    ----------
    process : int
        The id of the first process of the group.
    holds : callable
        Looks at what the processes have done. It raises an error if it cannot hold any more.
    pause : float, optional
        How many seconds pass before it looks again.
    """

    def is_suspended() -> bool:
        if not holds():
            return False
        held = False
        os.killpg(process, signal.SIGSTOP)
        try:
            time.sleep(0.02)  # until all threads have stopped
            held = bool(holds())
        finally:
            if not held:
                os.killpg(process, signal.SIGCONT)
        return held

    wait_until(is_suspended, TIMEOUT, pause)
