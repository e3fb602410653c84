"""Masks: values in JSON that are replaced for good.

A mask is a path of keys with dots between them. ``*`` is any key, ``**`` any number of levels, none included. A list needs no step of
its own: ``items.email`` and ``items.*.email`` are the email of every item, and ``items.0`` is the first. What is in doubt is masked:
a key with dots in it counts as that many steps, and where a path leads through a text or a number, that value is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias, cast

from ..codec import JSON
from ..errors import ConfigurationError

__all__ = ["MASK", "Path", "mask_json", "read_path"]

Path: TypeAlias = tuple[str, ...]
"""The steps that are left on the way to what is masked."""

MASK: Final = "***"
"""What stands in the place of what was masked."""

_MAX_STEPS: Final = 20


def read_path(text: str) -> Path:
    """Return the steps of a mask.

    Raises:
        ConfigurationError: it is not keys with dots between them, or has more than 20 of them.
    """
    steps = tuple(text.split(".")) if isinstance(text, str) else ()  # pyright: ignore[reportUnnecessaryIsInstance]
    if not steps or not all(steps) or len(steps) > _MAX_STEPS:
        raise ConfigurationError(
            f"the mask is {text!r}; allowed are up to {_MAX_STEPS} keys with dots between them, for example 'items.*.email'"
        )
    return steps


def mask_json(value: JSON, paths: Iterable[Path]) -> tuple[JSON, frozenset[str]]:
    """Replace what paths lead to.

    Args:
        value: JSON as `codec.decode` gives it.
        paths: of `read_path`.

    Returns:
        The value without what was masked, and the texts and numbers, as texts, that were. A null stays: it hides nothing.
    """
    walk = _Walk()
    return walk.masked(value, frozenset(paths)), frozenset(walk.values)


class _Walk:
    """One way through a value, on which all paths are followed at once; a list of a thousand objects asks the same a thousand times."""

    def __init__(self) -> None:
        self.values = set[str]()
        self._after = dict[tuple[frozenset[Path], str], frozenset[Path]]()
        self._is_end = dict[frozenset[Path], bool]()

    def masked(self, value: JSON, paths: frozenset[Path]) -> JSON:
        """Return a value without what the paths lead to from here."""
        if not paths or value is None:
            return value
        is_end = self._is_end.get(paths)
        if is_end is None:
            is_end = self._is_end[paths] = any(map(_ends, paths))
        if not is_end and isinstance(value, dict):
            return {key: self.masked(item, self.after(paths, key)) for key, item in value.items()}
        if not is_end and isinstance(value, list):
            return self._masked_items(cast("list[JSON]", value), paths)
        if not is_end and all(path[0] == "**" for path in paths):
            return value
        self.values.update(_scalars(value))
        return MASK

    def _masked_items(self, items: list[JSON], paths: frozenset[Path]) -> list[JSON]:
        passing = frozenset(path for path in paths if path[0] != "*" and not path[0].isdigit())
        if not any(step.isdigit() for path in paths for step in path):
            paths = passing | self.after(paths, "")  # no key: one place is like the other
            return [self.masked(item, paths) for item in items]
        return [self.masked(item, passing | self.after(paths, str(place))) for place, item in enumerate(items)]

    def after(self, paths: frozenset[Path], key: str) -> frozenset[Path]:
        """Return what is left of paths after a key."""
        known = self._after.get((paths, key))
        if known is None:
            known = paths
            for step in key.split("."):
                known = frozenset(rest for path in known for rest in _rests(path, step))
            self._after[paths, key] = known
        return known


def _ends(path: Path) -> bool:
    return all(step == "**" for step in path)


def _rests(path: Path, step: str) -> Iterator[Path]:
    if _ends(path):  # before the last step of a key with dots
        yield path
    elif path[0] == "**":
        yield path
        yield from _rests(path[1:], step)
    elif path[0] in ("*", step):
        yield path[1:]


def _scalars(value: JSON) -> Iterator[str]:
    """Give the texts and numbers in a value, as texts. True and false are none: nobody is known by them."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _scalars(item)
    elif isinstance(value, list):
        for item in cast("list[JSON]", value):
            yield from _scalars(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
