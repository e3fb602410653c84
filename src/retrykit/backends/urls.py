"""How a backend's URL is shown in an error: never its password."""

from __future__ import annotations

import re

__all__ = ["shown"]


def shown(url: object) -> str:
    """Return what was given as a URL for an error; where it may hold a password, no more than how it begins."""
    said = repr(url)
    if "@" not in said and "?" not in said:
        return said
    if not isinstance(url, str):
        return f"of the type {type(url).__name__}"
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", url)
    return repr(f"{scheme[0] if scheme else ''}...")
