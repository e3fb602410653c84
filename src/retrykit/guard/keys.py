"""The keys of guarded calls in the claim store, where messages have theirs: no two can be taken for each other."""

from __future__ import annotations

from typing import Final

from ..errors import ConfigurationError, InvalidMessageError
from ..message import CALL_MARK, MAX_ID_LENGTH, check_id, check_name

__all__ = ["Keys"]

_MOST: Final = MAX_ID_LENGTH - 2 * len(CALL_MARK)
"""Characters in a namespace and a key, together."""


class Keys:
    """The keys of one namespace.

    Args:
        namespace: up to 252 characters; "": none.

    Raises:
        ConfigurationError: the namespace is not allowed.
    """

    def __init__(self, namespace: str) -> None:
        if not isinstance(namespace, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a checker
            raise ConfigurationError(f"namespace is {namespace!r}; allowed is text")
        if namespace and CALL_MARK in check_name(namespace, "namespace"):
            raise ConfigurationError(f"the namespace {namespace!r} holds {CALL_MARK!r}, which separates it from keys")
        if len(namespace) >= _MOST:
            raise ConfigurationError(
                f"the namespace {namespace[:20]!r}... is {len(namespace)} characters long; allowed are {_MOST - 1}, since it has "
                f"{_MOST} together with a key"
            )
        self._prefix: Final = f"{CALL_MARK}{namespace}{CALL_MARK}"
        self.room: Final = _MOST - len(namespace)
        """Characters that a key may have."""

    def stored(self, key: str) -> str:
        """Return a key as it stands in the store.

        Raises:
            InvalidMessageError: the key is not allowed.
        """
        if not isinstance(key, str) or not 0 < len(key) <= self.room:  # pyright: ignore[reportUnnecessaryIsInstance]
            seen = f"{len(key)} characters long ({key[:20]!r}...)" if isinstance(key, str) and key else repr(key)  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidMessageError(
                f"the idempotency key is {seen}; allowed is text of 1 to {self.room} characters: {_MOST} together with the namespace"
            )
        if CALL_MARK in check_id(key, "idempotency key"):
            raise InvalidMessageError(
                f"the idempotency key {key!r} holds {CALL_MARK!r}; allowed is any other character"
            )
        return self._prefix + key
