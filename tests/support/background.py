"""Functions that run in threads of their own while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def background(*functions: Callable[[threading.Event], object]) -> Iterator[None]:
    """Run functions in threads until the end of the block, and raise their errors there.

    Parameters
    ----------
    *functions : callable
        Each one gets an event that is set at the end of the block, and then it must return.
    """
    ended = threading.Event()
    with ThreadPoolExecutor(len(functions)) as threads:
        running = [threads.submit(function, ended) for function in functions]
        try:
            yield
        finally:
            ended.set()
    for function in running:
        function.result()
