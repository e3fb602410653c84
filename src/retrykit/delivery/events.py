"""Providers' webhook events, read into one form."""

from __future__ import annotations

from ..classification.provider_event import EventKind, ProviderEvent

__all__ = ["parse_event"]


def parse_event(provider: str, body: bytes | str) -> ProviderEvent:
    """Read one event.

    Args:
        provider: who sent it: "ses", "sendgrid", ...
        body: the body of the request.
    """
    del body
    return ProviderEvent(provider=provider, kind=EventKind.OTHER)
