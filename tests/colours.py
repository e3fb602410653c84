"""Run an asynchronous test under each event loop that the library supports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import pytest

from tests.capabilities import require

require("trio")

import trio

Main: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]
Runner: TypeAlias = Callable[[Main], Any]


def run_asyncio(main: Main) -> Any:
    return asyncio.run(main())


both_loops = pytest.mark.parametrize("runner", [run_asyncio, trio.run], ids=["asyncio", "trio"])
