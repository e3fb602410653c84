"""What surrounds a wait: hooks, called before it, and the context managers that they give."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TypeAlias, cast

from ..events import AttemptFailed

__all__ = ["Hook", "around"]

Hook: TypeAlias = Callable[[AttemptFailed], object]
"""Called before a wait; a context manager that it returns is entered before and left after it."""


class around:  # noqa: N801 - used as a statement
    """Call hooks, and hold what they give for as long as the wait lasts.

    What was entered is left, in the opposite order, however the wait ends. A hook that fails is logged and ignored, and none
    swallows what ended the wait: it never breaks a call.

    Args:
        hooks: in the order in which they are called.
        event: what each is told.
    """

    def __init__(self, hooks: Sequence[Hook], event: AttemptFailed | None) -> None:
        self._hooks = hooks
        self._event = event
        self._held: list[tuple[Hook, AbstractContextManager[object]]] = []

    def __enter__(self) -> None:
        """Call the hooks, and enter what they give."""
        try:
            for hook in self._hooks:
                try:
                    given = hook(cast("AttemptFailed", self._event))
                    if isinstance(given, AbstractContextManager):
                        given.__enter__()
                        self._held.append((hook, cast("AbstractContextManager[object]", given)))
                except Exception as error:  # noqa: BLE001 - whatever a hook raises
                    _log(hook, error)
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave what was entered."""
        while self._held:
            hook, given = self._held.pop()
            try:
                given.__exit__(kind, error, traceback)
            except Exception as failure:  # noqa: BLE001 - as above
                _log(hook, failure)


def _log(hook: Hook, error: Exception) -> None:
    import logging  # only here: importing retrykit must stay cheap

    logging.getLogger("retrykit.events").error("the hook %r failed", hook, exc_info=error)
