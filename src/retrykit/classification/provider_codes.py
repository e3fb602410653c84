"""What the codes of providers' APIs and events mean: a table for each vocabulary.

A code is certain (it means one thing, whatever stands beside it) or vague (it stands for several causes: the words beside it are
asked first). Codes are in lower case and stand behind the class that they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..failure import ErrorClass as C  # it stands in every row

__all__ = ["CERTAIN_CODES", "VAGUE_CODES"]

CERTAIN_CODES: Final[Mapping[str, Mapping[C, str]]] = {
    "twilio": {C.PROVIDER_THROTTLED: "20429"},
}
"""Codes that mean one thing, by vocabulary and class."""

VAGUE_CODES: Final[Mapping[str, Mapping[C, str]]] = {}
"""Codes that count only where the words say nothing."""
