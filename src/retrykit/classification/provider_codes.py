"""What the codes of providers' APIs and events mean: a table for each vocabulary.

A code is certain (it means one thing, whatever stands beside it) or vague (it stands for several causes: the words beside it are
asked first). Codes are in lower case, with "_" for white space, and stand behind the class that they mean. Sources are the
providers' published lists of errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..failure import ErrorClass as C  # it stands in every row
from . import codes_email, codes_messaging, codes_platforms

__all__ = ["CERTAIN_CODES", "VAGUE_CODES"]

CERTAIN_CODES: Final[Mapping[str, Mapping[C, str]]] = {
    **codes_email.CERTAIN,
    **codes_messaging.CERTAIN,
    **codes_platforms.CERTAIN,
}
"""Codes that mean one thing, by vocabulary and class."""

VAGUE_CODES: Final[Mapping[str, Mapping[C, str]]] = {
    **codes_email.VAGUE,
    **codes_messaging.VAGUE,
    **codes_platforms.VAGUE,
}
"""Codes that count only where the words say nothing."""
