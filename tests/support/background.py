"""Functions that run in threads of their own while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def background(*functions: Callable[[threading.Event], object]) -> Iterator[None]:
    """Run functions in threads until the end of the block, and then raise their errors.

    Parameters
    ----------
    *functions : callable
        Each function gets an event, which is set at the end of the block. It must then return.
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
