"""By which fields of a dead letter the stores with tables search, and count."""

from __future__ import annotations

from typing import Final

__all__ = ["COMPARED", "COUNTED", "SUMMED"]

COUNTED: Final = (
    "campaign_id",
    "provider",
    "error_class",
    "error_group",
    "error_code",
    "reason",
    "state",
    "stage",
    "fingerprint",
)
"""What letters are counted by. These and the names below are part of the tables: whoever changes them raises their versions."""

_PAIRED: Final = ("campaign_id", "provider", "error_class", "error_code", "state")

SUMMED: Final = {
    "": COUNTED,
    **{field: tuple(by for by in (*_PAIRED, "fingerprint") if by != field) for field in _PAIRED},
    "campaign_id": _PAIRED[1:],
}
"""The fields by which the sums count all letters (""), and those with a value in a field."""

COMPARED: Final = (*COUNTED, "message_id", "recipient", "enhanced_code", "source")
"""What letters are searched by."""
