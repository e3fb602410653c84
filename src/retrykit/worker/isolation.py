"""Turns of one process: a suspect works while nothing else does, so that its death takes nobody with it.

Whoever wants to work takes a turn, alone or beside others. Turns begin in the order in which they were taken: those beside
others at once, as long as nobody before them wants to be alone; one that wants to be alone once everybody before it has
left. So nobody waits for ever for those who come later. Who waits holds no claim: the dispatchers see to that.

A forked child begins with nobody at work.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from ..clock import in_trio

if TYPE_CHECKING:
    import asyncio

    import trio

__all__ = ["AsyncIsolation", "AsyncTurn", "Isolation", "Turn"]


class Turn:
    """A place in the order of an `Isolation`; `Isolation.turn` makes it."""

    def __init__(self, isolation: Isolation, *, alone: bool) -> None:
        self._isolation = isolation
        self.alone: Final = alone

    def wait(self, limit: float) -> bool:
        """Wait until it is this turn's time.

        Args:
            limit: seconds of real time, >= 0.

        Returns:
            Whether it is; if not, the turn keeps its place until it leaves.
        """
        return self._isolation._wait(self, limit)  # pyright: ignore[reportPrivateUsage] - one thing in two classes

    def leave(self) -> None:
        """End the turn, or give its place up. May be repeated."""
        self._isolation._leave(self)  # pyright: ignore[reportPrivateUsage]


class Isolation:
    """Turns of the threads of a process, for a `Dispatcher`. Share one between all dispatchers of the process.

    Example:
        >>> isolation = Isolation()
        >>> beside, alone = isolation.turn(alone=False), isolation.turn(alone=True)
        >>> beside.wait(0), alone.wait(0)
        (True, False)
        >>> beside.leave()
        >>> alone.wait(0)
        True
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._turns = list[Turn]()

    def turn(self, *, alone: bool) -> Turn:
        """Take a turn behind all that were taken before.

        Args:
            alone: whether nothing else may work meanwhile.
        """
        if self._pid != os.getpid():
            self._begin()  # the others stayed with the parent
        turn = Turn(self, alone=alone)
        with self._changed:
            self._turns.append(turn)
        return turn

    def _wait(self, turn: Turn, limit: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: _has_begun(turn, self._turns), limit)

    def _leave(self, turn: Turn) -> None:
        with self._changed:
            if turn in self._turns:
                self._turns.remove(turn)
                self._changed.notify_all()


class AsyncTurn:
    """A place in the order of an `AsyncIsolation`; `AsyncIsolation.turn` makes it."""

    def __init__(self, turns: list[AsyncTurn], *, alone: bool) -> None:
        self._turns = turns
        self._begun: asyncio.Event | trio.Event | None = None
        self.alone: Final = alone
        turns.append(self)

    async def wait(self, limit: float) -> bool:
        """Wait until it is this turn's time, as `Turn.wait`; a task that is cancelled here still has to leave."""
        if limit > 0 and not self._has_begun():
            await self._wait(limit)
        return self._has_begun()

    def leave(self) -> None:
        """End the turn, or give its place up. May be repeated, and never waits."""
        if self in self._turns:
            self._turns.remove(self)
            for turn in self._turns:
                turn._tell()

    def _has_begun(self) -> bool:
        return _has_begun(self, self._turns)

    def _tell(self) -> None:
        if self._begun is not None and self._has_begun():
            self._begun.set()

    async def _wait(self, limit: float) -> None:
        if in_trio():
            import trio

            self._begun = trio.Event()
            with trio.move_on_after(limit):
                await self._begun.wait()
            return
        import asyncio

        self._begun = asyncio.Event()
        try:
            async with asyncio.timeout(limit):
                await self._begun.wait()
        except TimeoutError:
            pass


class AsyncIsolation:
    """Turns of the tasks of an event loop, for an `AsyncDispatcher`, under asyncio or trio.

    As `Isolation`. Share one between all dispatchers of the loop.

    Example:
        >>> import asyncio
        >>> async def main() -> bool:
        ...     turn = AsyncIsolation().turn(alone=True)
        ...     try:
        ...         return await turn.wait(30.0)
        ...     finally:
        ...         turn.leave()
        >>> asyncio.run(main())
        True
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._turns = list[AsyncTurn]()

    def turn(self, *, alone: bool) -> AsyncTurn:
        """Take a turn behind all that were taken before, as `Isolation.turn`."""
        if self._pid != os.getpid():
            self._begin()  # the others stayed with the parent
        return AsyncTurn(self._turns, alone=alone)


def _has_begun(turn: Turn | AsyncTurn, turns: list[Turn] | list[AsyncTurn]) -> bool:
    """Tell whether nobody before a turn keeps it from its work."""
    for other in turns:
        if other is turn:
            return True
        if turn.alone or other.alone:
            return False
    return False  # it has left
