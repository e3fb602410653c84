"""Values of labels, of which there may not be too many: each new one is another time series, for ever."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Final

from ..checks import whole
from ..errors import ConfigurationError

__all__ = ["NONE", "OTHER", "Bounded", "check_namespace"]

_NAMESPACE: Final = re.compile("[A-Za-z][A-Za-z0-9_]{0,63}")

OTHER: Final = "other"
"""Stands for every value beyond the limit."""

NONE: Final = "none"
"""Stands where there is no value."""

_LENGTH: Final = 64
"""Characters of a value that are kept: a provider's code may be as long as its answer."""


def check_namespace(namespace: str) -> str:
    """Return what the names of metrics begin with, if Prometheus takes it in a name.

    Raises:
        ConfigurationError: it does not.
    """
    if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"namespace is {namespace!r}; allowed are 1 to 64 letters, digits and '_', a letter first, such as 'retrykit'"
        )
    return namespace


class Bounded:
    """Lets the first so many distinct values through and makes `OTHER` of those that follow; safe in threads.

    Args:
        limit: distinct values, >= 1.
        known: values that always come through and do not count.

    Raises:
        ConfigurationError: a value is not allowed.

    Example:
        >>> code = Bounded(2)
        >>> [code(each) for each in ("550", "421", "550", "X-1", None)]
        ['550', '421', '550', 'other', 'none']
    """

    __slots__ = ("_known", "_left", "_lock")

    def __init__(self, limit: int, known: Iterable[str] = ()) -> None:
        if isinstance(known, str) or not isinstance(known, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"known is {known!r}; allowed is a list of values, such as ['ses']")
        self._known: Final = {OTHER, NONE, *known}
        self._left = whole(limit, "limit")
        self._lock: Final = threading.Lock()

    def __call__(self, value: str | None) -> str:
        """Return the value itself, cut to 64 characters, or what stands for it."""
        if value is None:
            return NONE
        text = value[:_LENGTH]
        if text in self._known:
            return text
        with self._lock:
            if text not in self._known:
                if not self._left:
                    return OTHER
                self._left -= 1
                self._known.add(text)
        return text
