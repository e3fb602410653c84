"""Many at once: threads that begin together, and what a race has to come to."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

__all__ = ["PROCESSES", "THREADS", "in_threads"]

T = TypeVar("T")

THREADS: Final = 8
PROCESSES: Final = 3


@contextmanager
def _switching_often() -> Generator[None]:
    """Let Python change threads far more often than usual, so that a gap between reading and writing is met."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def in_threads(work: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """Call `work(number)` in as many threads, all at once, and return the results in the order of their numbers."""
    barrier = threading.Barrier(threads)

    def begin(number: int) -> T:
        barrier.wait(30)
        return work(number)

    with _switching_often(), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(begin, range(threads)))
