"""Where in the application's own code an exception was raised."""

from __future__ import annotations

import functools
import os
from typing import Final

__all__ = ["own_frame"]

MAX_FRAMES: Final = 256
"""Frames of a traceback that are looked at, from the outermost."""
_MAX_LENGTH: Final = 255

_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep
_STANDARD_LIBRARY: Final = os.path.dirname(os.__file__) + os.sep
_INSTALLED: Final = ("site-packages", "dist-packages")


def own_frame(error: BaseException) -> str | None:
    """Return the innermost frame of an exception's traceback that is the application's own code.

    That is code which lies neither in the standard library, nor among installed packages, nor in retrykit.

    Returns:
        "module:function", with the qualified name of the function, at most 255 characters; None where the traceback
        has no such frame.
    """
    found = None
    traceback = error.__traceback__
    for _ in range(MAX_FRAMES):
        if traceback is None:
            break
        if _is_own(traceback.tb_frame.f_code.co_filename):
            found = traceback.tb_frame
        traceback = traceback.tb_next
    return None if found is None else _place(str(found.f_globals.get("__name__", "?")), found.f_code.co_qualname)


@functools.lru_cache(maxsize=4_096)
def _place(module: str, function: str) -> str:
    return f"{module}:{function}"[:_MAX_LENGTH]


@functools.lru_cache(maxsize=4_096)
def _is_own(filename: str) -> bool:
    """Tell whether a source file is the application's; generated code is not, what was typed in is."""
    if filename.startswith("<"):
        return not filename.startswith(("<frozen ", "<attrs generated ", "<__array_function__", "<retrykit wrapper "))
    if filename.startswith((_PACKAGE, _STANDARD_LIBRARY)):
        return False
    return not any(part in _INSTALLED for part in filename.replace("\\", "/").split("/"))
