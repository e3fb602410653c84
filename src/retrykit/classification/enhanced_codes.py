"""What enhanced status codes mean, as far as they can be believed.

Some codes mean the same wherever they appear and stand before a text's general words. Others are used for anything
("5.7.1" for a full list, a wrong password and an unknown user alike) and only count where the words said nothing.

Source: RFC 3463, the IANA registry of enhanced status codes (RFC 5248), RFC 7505 (null MX), RFC 7372 (authentication).
"""

from __future__ import annotations

from typing import Final

from ..failure import ErrorClass as C  # it stands in every row
from .rules import Rule

__all__ = ["FOR_NOW", "TRUSTED_CODES", "VAGUE_CODES"]


def _row(code: str, error_class: C, source: str) -> Rule:
    return Rule(f"smtp.enhanced.{code}", error_class, enhanced=(code,), source=source)


_REGISTRY: Final = "RFC 3463 section 3"
_EXCHANGE: Final = "Exchange Online non-delivery reports"

TRUSTED_CODES: Final = (
    _row("5.1.1", C.INVALID_RECIPIENT, _REGISTRY),
    _row("4.1.1", C.SOFT_BOUNCE, _REGISTRY),  # an unknown user that may heal: few tries, never "bounced" at once
    _row("4.1.2", C.DNS_FAILURE, _REGISTRY),
    _row("5.1.2", C.INVALID_DOMAIN, _REGISTRY),
    _row("5.1.3", C.INVALID_RECIPIENT, _REGISTRY),
    _row("5.1.6", C.INVALID_RECIPIENT, _REGISTRY),
    _row("x.1.7", C.PROVIDER_MISCONFIGURED, _REGISTRY),
    _row("x.1.8", C.PROVIDER_MISCONFIGURED, _REGISTRY),  # also as 4xx: the sender's domain does not resolve
    _row("5.1.10", C.INVALID_DOMAIN, "RFC 7505 section 4.1"),
    _row("x.2.121-122", C.PROVIDER_THROTTLED, _EXCHANGE),  # the recipient gets more than it may
    _row("x.1.90", C.QUOTA_EXCEEDED, _EXCHANGE),
    _row("x.2.2", C.MAILBOX_FULL, _REGISTRY),  # a full mailbox heals, whatever the first digit says
    _row("x.2.3", C.CONTENT_REJECTED, _REGISTRY),
    _row("x.3.4", C.CONTENT_REJECTED, _REGISTRY),
    _row("4.3.1", C.PROVIDER_UNAVAILABLE, _REGISTRY),
    _row("4.4.1", C.CONNECTION_ERROR, _REGISTRY),
    _row("4.4.2", C.CONNECTION_ERROR, _REGISTRY),
    _row("4.4.3", C.DNS_FAILURE, _REGISTRY),
    _row("4.4.4", C.DNS_FAILURE, _REGISTRY),
    _row("5.4.4", C.INVALID_DOMAIN, _REGISTRY),
    _row("5.4.310", C.INVALID_DOMAIN, _EXCHANGE),
    _row("x.4.300-399", C.PROVIDER_UNAVAILABLE, _EXCHANGE),  # tried for a day in vain: the other server may come back
    _row("5.4.5", C.QUOTA_EXCEEDED, "Google Workspace SMTP errors"),
    _row("x.4.7", C.PROVIDER_UNAVAILABLE, _REGISTRY),
    _row("x.5.3", C.PROVIDER_THROTTLED, _REGISTRY),  # too many recipients: send fewer at a time
    _row("x.7.3-14", C.PROVIDER_MISCONFIGURED, "RFC 3463 section 3.8, RFC 4954, RFC 5248"),
    _row("x.7.20-26", C.PROVIDER_MISCONFIGURED, "RFC 7372"),
    _row("x.7.27", C.PROVIDER_MISCONFIGURED, "RFC 7505 section 4.2: the sender has null MX; SPF at Gmail"),
    _row("4.7.28", C.PROVIDER_THROTTLED, "IANA registry: mail flood detected"),
    _row("4.7.320-329", C.PROVIDER_MISCONFIGURED, _EXCHANGE),  # DANE and MTA-STS
    _row("4.7.500-899", C.PROVIDER_THROTTLED, _EXCHANGE),
    _row("5.7.504-505", C.INVALID_RECIPIENT, _EXCHANGE),
    _row("5.7.500-699", C.REPUTATION_BLOCKED, _EXCHANGE),
    _row("5.7.700-749", C.QUOTA_EXCEEDED, _EXCHANGE),
)
"""Codes that mean the same wherever they appear."""

VAGUE_CODES: Final = (
    _row("5.1.0", C.PROVIDER_MISCONFIGURED, "mostly the sender's address"),
    _row("4.1.x", C.SOFT_BOUNCE, _REGISTRY),
    _row("5.2.1", C.INVALID_RECIPIENT, _REGISTRY),
    _row("4.2.x", C.SOFT_BOUNCE, _REGISTRY),
    _row("4.3.x", C.PROVIDER_UNAVAILABLE, _REGISTRY),
    _row("4.4.x", C.PROVIDER_UNAVAILABLE, _REGISTRY),
    _row("4.5.x", C.PROVIDER_UNAVAILABLE, _REGISTRY),
    _row("5.5.1-6", C.INTERNAL_ERROR, _REGISTRY),
    _row("5.6.x", C.CONTENT_REJECTED, _REGISTRY),
    _row("4.7.x", C.PROVIDER_THROTTLED, _REGISTRY),
    _row("5.7.0-2", C.POLICY_VIOLATION, _REGISTRY),
)
"""Codes that are used for many things: they count where the words said nothing."""

FOR_NOW: Final = {
    C.INVALID_RECIPIENT: C.SOFT_BOUNCE,
    C.INVALID_DOMAIN: C.DNS_FAILURE,
    C.CONTENT_REJECTED: C.SOFT_BOUNCE,
    C.POLICY_VIOLATION: C.SOFT_BOUNCE,
    C.REPUTATION_BLOCKED: C.PROVIDER_THROTTLED,
}
"""What a class for good means where another try is asked for: in a 4yz reply (RFC 5321 section 4.2.1), in a deferred event."""
