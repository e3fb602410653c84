"""Redrives that go on in the background, whether anybody looks at them or not."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from ..clock import Clock
from ..deadletter import Cipher
from ..errors import RetrykitError
from ..redrive import AsyncRedriver
from ..stores import AsyncBackend

__all__ = ["Running"]

_logger = logging.getLogger("retrykit.dashboard")


class Running:
    """Goes on with the redrives that run, as long as there are any.

    It begins when one was started or resumed here, or is looked at; so one that a dashboard had left when it ended goes on.
    Runners of your services may be there as well: one at a time holds a redrive.

    Args:
        backend: where the redrives are.
        cipher: opens payloads that were encrypted.
        clock: where the time comes from; None: the clock in force.
        is_on: False leaves redrives to others.
    """

    def __init__(self, backend: AsyncBackend, cipher: Cipher | None, clock: Clock | None, is_on: bool) -> None:
        self._backend = backend
        self._is_on = is_on
        self._redriver = AsyncRedriver(backend, poll=0.5, cipher=cipher, clock=clock)
        self._tasks: dict[str, asyncio.Task[object]] = {}

    @property
    def is_on(self) -> bool:
        """Whether redrives go on here."""
        return self._is_on

    def go_on(self, redrive_id: str) -> None:
        """Go on with a redrive, unless that is under way."""
        task = self._tasks.get(redrive_id)
        if self._is_on and (task is None or task.done()):
            self._tasks[redrive_id] = asyncio.get_running_loop().create_task(self._run(redrive_id))

    async def _run(self, redrive_id: str) -> None:
        try:
            await self._redriver.run(redrive_id)
        except RetrykitError as error:  # another runner holds it: that one goes on
            _logger.info("the redrive %s is left to others: %s", redrive_id, error)
        finally:
            self._tasks.pop(redrive_id, None)

    async def end(self) -> None:
        """Leave all redrives where they are, for whoever goes on with them."""
        tasks = dict(self._tasks)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        for redrive_id in tasks:
            with contextlib.suppress(RetrykitError):  # a lease ends by itself
                await self._redriver.release(redrive_id)
