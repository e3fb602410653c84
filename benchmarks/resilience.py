"""What retry, breaker and all parts together cost, beside the peers: `python benchmarks/resilience.py`.

The peers are in the dependency group "bench"; one that is absent is named and left out. All contenders of a table are sampled in
turns, in another order each round, and the medians are compared in the same run; rows within 5 % of each other are ties.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import platform
import random
import statistics
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from contenders import BARE, CONSECUTIVE, FUSED, IMPORTS, OURS, PLAIN, RETRY, WINDOW, Decorator, Pair

from retrykit import CircuitBreaker
from retrykit.breaker import failure_rate

SAMPLE = 0.02
"""Seconds of one sample."""

THREADS = 8

Sampler = Callable[[int], float]
"""Makes so many calls and returns the seconds they took."""


def noop() -> int:
    """Succeed."""
    return 1


async def noop_async() -> int:
    """Succeed."""
    return 1


def flaky() -> Callable[[], int]:
    """Return a function that fails twice, then succeeds."""
    calls = 0

    def call() -> int:
        nonlocal calls
        calls += 1
        if calls % 3:
            raise ConnectionResetError("gone")
        return calls

    return call


def flaky_async() -> Callable[[], Any]:
    """Return a coroutine function that fails twice, then succeeds."""
    call = flaky()

    async def call_async() -> int:
        return call()

    return call_async


def sampler(fn: Callable[[], object]) -> Sampler:
    """Time calls of a function."""

    def sample(number: int) -> float:
        began = time.perf_counter()
        for _ in range(number):
            fn()
        return time.perf_counter() - began

    return sample


def sampler_async(fn: Callable[[], Any]) -> Sampler:
    """Time calls of a coroutine function within one loop."""

    async def calls(number: int) -> float:
        began = time.perf_counter()
        for _ in range(number):
            await fn()
        return time.perf_counter() - began

    return lambda number: asyncio.run(calls(number))


def sampler_threads(fn: Callable[[], object]) -> Sampler:
    """Time calls that eight threads share."""

    def calls(number: int, barrier: threading.Barrier) -> None:
        barrier.wait()
        for _ in range(number):
            fn()

    def sample(number: int) -> float:
        barrier = threading.Barrier(THREADS + 1)
        threads = [threading.Thread(target=calls, args=(number // THREADS, barrier)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        barrier.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        return time.perf_counter() - began

    return sample


def medians(samplers: dict[str, Sampler], rounds: int) -> dict[str, float]:
    """Return the nanoseconds of a call of each, the median of rounds in which each has its turn."""
    numbers = {name: _calls_of_a_sample(sample) for name, sample in samplers.items()}
    found: dict[str, list[float]] = {name: [] for name in samplers}
    names = list(samplers)
    gc.disable()
    try:
        for _ in range(rounds):
            random.shuffle(names)
            for name in names:
                found[name].append(samplers[name](numbers[name]) / numbers[name] * 1e9)
    finally:
        gc.enable()
    return {name: statistics.median(values) for name, values in found.items()}


def _calls_of_a_sample(sample: Sampler) -> int:
    number = THREADS
    while (took := sample(number)) < SAMPLE / 10:
        number *= 4
    return max(THREADS, int(number * SAMPLE / took))


def table(title: str, makers: dict[str, Callable[[], Pair]], rounds: int, kind: str) -> None:
    """Measure one table and print it: `kind` is "sync", "async", "flaky", "flaky async" or "threads"."""
    is_async = kind.endswith("async")
    samplers: dict[str, Sampler] = {}
    if kind in ("sync", "async"):
        samplers[PLAIN] = sampler_async(noop_async) if is_async else sampler(noop)
    absent = []
    for name, make in makers.items():
        if name == BARE and kind.startswith("flaky"):
            continue  # it does not retry
        try:
            decorator = make()[is_async]
        except ImportError:
            absent.append(name)
            continue
        if decorator is not None:
            samplers[name] = _sampler(decorator, kind)
    found = medians(samplers, rounds)
    unit = found.get(BARE, found[OURS])
    print(f"\n{title}")
    for name, value in sorted(found.items(), key=lambda item: item[1]):
        print(f"  {name:34} {value:12,.0f} ns {value / unit:9.2f} x")
    if absent:
        print(f"  not installed: {', '.join(absent)}")


def _sampler(decorator: Decorator, kind: str) -> Sampler:
    if kind == "flaky":
        return sampler(decorator(flaky()))
    if kind == "flaky async":
        return sampler_async(decorator(flaky_async()))
    if kind == "async":
        return sampler_async(decorator(noop_async))
    return (sampler_threads if kind == "threads" else sampler)(decorator(noop))


def imports(rounds: int) -> None:
    """Print what importing costs: milliseconds, and bytes of Python objects that stay."""
    program = (
        "import sys, time, tracemalloc; tracemalloc.start() if sys.argv[1] == 'bytes' else None; "
        "began = time.perf_counter(); {}; "
        "print(tracemalloc.get_traced_memory()[0] if sys.argv[1] == 'bytes' else time.perf_counter() - began)"
    )
    print("\nImport, in a new interpreter")
    for name, statement in IMPORTS.items():
        command = [sys.executable, "-I", "-c", program.format(statement)]
        runs = [subprocess.run([*command, "time"], capture_output=True, text=True, check=False) for _ in range(rounds)]
        if runs[0].returncode:
            print(f"  {name:34} not installed")
            continue
        size = subprocess.run([*command, "bytes"], capture_output=True, text=True, check=True)
        milliseconds = min(float(run.stdout) for run in runs) * 1000
        print(f"  {name:34} {milliseconds:9.1f} ms {float(size.stdout) / 2**20:8.2f} MiB")


def sizes() -> None:
    """Print the bytes of a breaker."""
    print("\nBytes of a breaker, of 1,000")
    for name, make in {
        "failures in a row": lambda number: CircuitBreaker(f"breaker-{number}"),
        "window of 100 calls": lambda number: CircuitBreaker(f"breaker-{number}", trip=failure_rate(0.5)),
    }.items():
        make(0)
        tracemalloc.start()
        kept = [make(number) for number in range(1000)]
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"  {name:34} {size / len(kept):9,.0f}")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="samples of each contender (default 9)")
    rounds = parser.parse_args().rounds
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, median of {rounds} rounds")
    print(f"ratios: to {BARE!r}")
    for kind in ("sync", "async"):
        table(f"Retry, a call that succeeds, {kind}", RETRY, rounds, kind)
        table(f"Breaker that counts failures in a row, a call that succeeds, {kind}", CONSECUTIVE, rounds, kind)
        table(f"Breaker with a window of 100 calls, a call that succeeds, {kind}", WINDOW, rounds, kind)
        table(f"Retry, breaker and budget, a call that succeeds, {kind}", FUSED, rounds, kind)
    table("Two failures, then success, no waits, sync (ratios to retrykit)", RETRY, rounds, "flaky")
    table("Two failures, then success, no waits, async (ratios to retrykit)", RETRY, rounds, "flaky async")
    table("Breaker, a call that succeeds, eight threads at once", CONSECUTIVE, rounds, "threads")
    imports(rounds)
    sizes()


if __name__ == "__main__":
    main()
