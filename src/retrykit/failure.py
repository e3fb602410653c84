"""The classified form of one failed try: what failed, who is at fault, and whether it may have happened all the same.

`ErrorClass` is an open `str`: the built-in classes are its attributes, an application adds its own with a group. The
group says who is at fault, and with it how the failure is treated where nothing more precise is said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Final, Self, cast

import attrs

from .codec import JSON
from .errors import ConfigurationError, InvalidPayloadError

__all__ = ["BUILT_IN_CLASSES", "ErrorClass", "ErrorGroup", "Failure", "Outcome"]


class ErrorGroup(StrEnum):
    """Who is at fault."""

    TRANSIENT_INFRASTRUCTURE = "transient_infrastructure"
    """The provider or the network, for now."""
    THROTTLING = "throttling"
    """Our rate."""
    TEMPORARY_MAILBOX = "temporary_mailbox"
    """The recipient, for now."""
    PERMANENT_RECIPIENT = "permanent_recipient"
    """The recipient, for good."""
    CONTENT_POLICY = "content_policy"
    """The content."""
    SENDER = "sender"
    """Our standing: credentials, relay rights, DNS, reputation."""
    INTERNAL = "internal"
    """Our code or data."""
    UNMAPPED = "unmapped"
    """Nobody knows."""


class Outcome(StrEnum):
    """What is known about the side effect of a failed try."""

    NOT_SENT = "not_sent"
    """Certainly no side effect."""
    REJECTED = "rejected"
    """The provider said no."""
    UNKNOWN = "unknown"
    """It may have happened."""


_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.ASCII)


class ErrorClass(str):
    """The name of a kind of failure, with the group it belongs to.

    Args:
        name: lower-case letters, digits, ``_ . -``, at most 64 characters; not the name of a group.
        group: who is at fault. May be left out for a built-in name only.

    Raises:
        ConfigurationError: the name is not allowed, the group is missing, or a built-in name is given another group.

    Example:
        >>> CARD_DECLINED = ErrorClass("card_declined", group=ErrorGroup.PERMANENT_RECIPIENT)
        >>> CARD_DECLINED == "card_declined", CARD_DECLINED.group.value
        (True, 'permanent_recipient')
    """

    __slots__ = ("group",)

    group: ErrorGroup

    NETWORK_TIMEOUT: ClassVar[ErrorClass]
    DNS_FAILURE: ClassVar[ErrorClass]
    CONNECTION_ERROR: ClassVar[ErrorClass]
    PROVIDER_UNAVAILABLE: ClassVar[ErrorClass]
    RESOURCE_CONTENTION: ClassVar[ErrorClass]
    PROVIDER_THROTTLED: ClassVar[ErrorClass]
    QUOTA_EXCEEDED: ClassVar[ErrorClass]
    SOFT_BOUNCE: ClassVar[ErrorClass]
    MAILBOX_FULL: ClassVar[ErrorClass]
    GREYLISTED: ClassVar[ErrorClass]
    INVALID_RECIPIENT: ClassVar[ErrorClass]
    INVALID_DOMAIN: ClassVar[ErrorClass]
    RECIPIENT_SUPPRESSED: ClassVar[ErrorClass]
    CONTENT_REJECTED: ClassVar[ErrorClass]
    POLICY_VIOLATION: ClassVar[ErrorClass]
    PROVIDER_MISCONFIGURED: ClassVar[ErrorClass]
    REPUTATION_BLOCKED: ClassVar[ErrorClass]
    INVALID_PAYLOAD: ClassVar[ErrorClass]
    RENDERING_FAILURE: ClassVar[ErrorClass]
    INTERNAL_ERROR: ClassVar[ErrorClass]
    POISON_MESSAGE: ClassVar[ErrorClass]
    UNKNOWN: ClassVar[ErrorClass]

    def __new__(cls, name: str, *, group: ErrorGroup | str | None = None) -> Self:
        """See the class."""
        text = str(name)
        if text in _GROUPS:
            raise ConfigurationError(
                f"{text!r} is the name of an error group, not of a class; use ErrorGroup({text!r})"
            )
        if not _NAME.fullmatch(text):
            raise ConfigurationError(
                f"the error class is {text!r}; allowed are lower-case letters, digits, '_', '.' and '-', "
                "beginning with a letter, at most 64 characters"
            )
        built_in = BUILT_IN_CLASSES.get(text)
        if group is None:
            if built_in is None:
                raise ConfigurationError(f"the error class {text!r} needs a group: one of {', '.join(sorted(_GROUPS))}")
            return cast("Self", built_in)
        if group not in _GROUPS:
            raise ConfigurationError(f"the group of {text!r} is {group!r}; allowed are {', '.join(sorted(_GROUPS))}")
        if built_in is not None and built_in.group != group:
            raise ConfigurationError(f"{text!r} is a built-in class of the group {built_in.group!r}, not {group!r}")
        self = super().__new__(cls, text)
        self.group = ErrorGroup(group)
        return self

    @property
    def is_built_in(self) -> bool:
        """Whether it is one of retrykit's own classes."""
        return str(self) in BUILT_IN_CLASSES

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, ErrorGroup]]:
        """Pickle with the group."""
        return (str(self),), {"group": self.group}

    def __repr__(self) -> str:
        return f"ErrorClass({str(self)!r}, group={self.group.value!r})"


_GROUPS: Final = frozenset(group.value for group in ErrorGroup)
BUILT_IN_CLASSES: Final[dict[str, ErrorClass]] = {}
"""The built-in classes by name."""

for _group, _names in {
    ErrorGroup.TRANSIENT_INFRASTRUCTURE: (
        "network_timeout dns_failure connection_error provider_unavailable resource_contention"
    ),
    ErrorGroup.THROTTLING: "provider_throttled quota_exceeded",
    ErrorGroup.TEMPORARY_MAILBOX: "soft_bounce mailbox_full greylisted",
    ErrorGroup.PERMANENT_RECIPIENT: "invalid_recipient invalid_domain recipient_suppressed",
    ErrorGroup.CONTENT_POLICY: "content_rejected policy_violation",
    ErrorGroup.SENDER: "provider_misconfigured reputation_blocked",
    ErrorGroup.INTERNAL: "invalid_payload rendering_failure internal_error poison_message",
    ErrorGroup.UNMAPPED: "unknown",
}.items():
    for _name in _names.split():
        BUILT_IN_CLASSES[_name] = ErrorClass(_name, group=_group)
        setattr(ErrorClass, _name.upper(), BUILT_IN_CLASSES[_name])


@attrs.frozen(kw_only=True)
class Failure:
    """One failed try, classified. The provider's words stay verbatim; our class stands beside them."""

    error_class: ErrorClass
    """What kind of failure it is."""
    outcome: Outcome
    """Whether the side effect may have happened."""
    error_code: str | None = None
    """The provider's own code ("550"), or the exception's name, verbatim."""
    enhanced_code: str | None = None
    """The enhanced status code ("5.1.1"), RFC 3463."""
    error_message: str = ""
    """The provider's or the exception's own text, verbatim up to a bound."""
    provider: str | None = None
    """Who answered, where known."""
    stage: str | None = None
    """The named boundary where it failed: parse, validate, render, send, or the application's own."""
    retry_after: float | None = None
    """Seconds the other side asked us to wait, or None."""
    rule: str = ""
    """The name of the rule that chose the class."""
    frame: str | None = None
    """Where in the application's own code it was raised, "module:function"; None where that is not known."""

    @property
    def group(self) -> ErrorGroup:
        """Who is at fault: the class's group."""
        return self.error_class.group

    def to_dict(self) -> dict[str, JSON]:
        """Return the failure as JSON values, without the fields that say nothing."""
        fields: dict[str, JSON] = {
            "error_class": str(self.error_class),
            "error_group": self.group.value,
            "outcome": self.outcome.value,
        }
        for name in (
            "error_code",
            "enhanced_code",
            "error_message",
            "provider",
            "stage",
            "retry_after",
            "rule",
            "frame",
        ):
            value = getattr(self, name)
            if value != getattr(attrs.fields(Failure), name).default:
                fields[name] = value
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, JSON]) -> Failure:
        """Make a failure of what `to_dict` gave."""
        for name in ("error_code", "enhanced_code", "error_message", "provider", "stage", "rule", "frame"):
            if not isinstance(fields.get(name), str | None):
                raise InvalidPayloadError(f"{name} of a failure is {type(fields[name]).__name__}; allowed is text")
        wait = fields.get("retry_after")
        if wait is not None and (isinstance(wait, bool) or not isinstance(wait, (int, float)) or wait < 0):
            raise InvalidPayloadError("retry_after of a failure is no number of seconds >= 0")
        known = {f.name for f in attrs.fields(cls)} - {"error_class", "outcome"}
        return cls(
            error_class=ErrorClass(cast("str", fields["error_class"]), group=cast("str", fields["error_group"])),
            outcome=Outcome(cast("str", fields["outcome"])),
            **{name: value for name, value in fields.items() if name in known},  # type: ignore[arg-type]
        )
