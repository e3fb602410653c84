"""Runs the flows of the stores on a client, synchronous or asynchronous, and says what its errors mean for a store."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from ...errors import StoreCorruptError, StoreError, StoreUnavailableError
from ...stores.implement import implement
from .commands import Call, Flow

__all__ = ["Client", "bound", "driver", "driver_async", "meaning"]

S = TypeVar("S")
T = TypeVar("T")


class Client(Protocol):
    """What is asked of a client: redis-py's of a server, of Sentinel or of a cluster, in either colour."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command and return its reply, or an awaitable of it."""
        ...


_RAW: Final = {"NEVER_DECODE": True}  # replies are bytes, whatever the client does for the application
_CLIENTS: Final = ("redis", "valkey")
_REFUSALS: Final = frozenset(
    "AskError ClusterDownError NoPermissionError OutOfMemoryError ReadOnlyError TryAgainError".split()
)
"""Errors by which a server refuses what it would have done at another time; the client has taken the code out of their text."""
_REFUSES: Final = re.compile(r"\b(READONLY|OOM|LOADING|MISCONF|NOREPLICAS|BUSY|NOAUTH|NOPERM)\b")


def driver(client: Client) -> Callable[[Flow[T]], T]:
    """Return a function that runs a flow on a synchronous client."""

    def run(flow: Flow[T]) -> T:
        reply: Any = None
        try:
            while True:
                reply = _execute(client, flow.send(reply))
        except StopIteration as done:
            answer: T = done.value
            return answer

    return run


def driver_async(client: Client) -> Callable[[Flow[T]], Awaitable[T]]:
    """Return a coroutine function that runs a flow on an asynchronous client."""

    async def run(flow: Flow[T]) -> T:
        """Return the answer of a flow."""
        reply: Any = None
        try:
            while True:
                reply = await _execute_async(client, flow.send(reply))
        except StopIteration as done:
            answer: T = done.value
            return answer

    return run


def _execute(client: Client, call: Call) -> Any:
    try:
        try:
            return client.execute_command("EVALSHA", call.script.sha, 2, *call.keys, *call.args, **_RAW)
        except Exception as error:
            if not _is_unknown_script(error):
                raise
        return client.execute_command("EVAL", call.script.text, 2, *call.keys, *call.args, **_RAW)
    except Exception as error:
        said = meaning(error)
        if said is None:
            raise
        raise said from error


async def _execute_async(client: Client, call: Call) -> Any:
    try:
        try:
            return await client.execute_command("EVALSHA", call.script.sha, 2, *call.keys, *call.args, **_RAW)
        except Exception as error:
            if not _is_unknown_script(error):
                raise
        return await client.execute_command("EVAL", call.script.text, 2, *call.keys, *call.args, **_RAW)
    except Exception as error:
        said = meaning(error)
        if said is None:
            raise
        raise said from error


def _kinds(error: BaseException) -> set[str]:
    """Return the names of the client's own classes that an error is of."""
    return {cls.__name__ for cls in type(error).__mro__ if cls.__module__.partition(".")[0] in _CLIENTS}


def _is_unknown_script(error: Exception) -> bool:
    return "NoScriptError" in _kinds(error)


def meaning(error: Exception) -> StoreError | None:
    """Return what an error of the client means for a store; None: it is not the client's."""
    kinds = _kinds(error)
    what = f"{type(error).__name__}: {error}"
    if kinds & _REFUSALS or ("ResponseError" in kinds and _REFUSES.search(str(error))):
        return StoreUnavailableError(f"the server refuses for now: {what}")
    if "ResponseError" in kinds:
        return StoreCorruptError(
            f"the server could not run a script: {what}; another program may use the same keys: give the backend a prefix of its own"
        )
    if kinds & {"RedisError", "ValkeyError", "RedisClusterException", "ValkeyClusterException"}:
        return StoreUnavailableError(f"the server cannot be reached: {what}; what was asked for may have happened")
    return None


def bound(contract: Callable[[], S], flows: object, run: Callable[[Flow[Any]], Any]) -> S:
    """Return a store of a contract whose primitives run the flows of the same names."""

    def primitive(name: str) -> Callable[..., Any]:
        flow: Callable[..., Flow[Any]] = getattr(flows, name)

        def call(_self: object, *args: object) -> Any:
            return run(flow(*args))

        return call

    return implement(contract, "Redis", primitive)
