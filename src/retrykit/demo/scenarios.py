"""The scripted day: each way of failing, what it shows, and how its messages have to end.

The table is the single source: the servers act by it, the audit checks by it, and the documentation prints it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import attrs

from ..classification import EventKind
from ..decision import DispositionKind
from ..errors import ConfigurationError
from ..stores import DeliveryStatus

__all__ = ["SCENARIOS", "Act", "Death", "DemoMessage", "Hour", "Reply", "Scenario", "Travel", "messages_of"]


class Hour(StrEnum):
    """The parts of the day, in their order, and what the main provider does in each."""

    MORNING = "the main provider works"
    REFUSING = "the main provider refuses connections"
    RESETTING = "the main provider resets connections"
    EVENING = "the main provider works again"


class Act(StrEnum):
    """What a server does when it is asked to take a message."""

    ACCEPT = "accept"
    ACCEPT_THEN_HANG = "accept, then no answer"
    HANG_UP = "hang up after the text, without having taken it"
    ACCEPT_THEN_HOLD = "accept, then hold the line until the worker is dead"
    HOLD = "hold the line before taking it, until the worker is dead"


class Travel(StrEnum):
    """How the provider's events reach the application."""

    WEBHOOKS = "by one webhook call each"
    DISORDER = "by two webhook calls each, the last event first"
    LOST = "by no webhook call"


class Death(StrEnum):
    """When a worker that bills a delivered message is killed."""

    BEFORE_COMMIT = "after it has written the bill, before the transaction is committed"
    AFTER_COMMIT = "after the transaction is committed, before the webhook call is answered"


@attrs.frozen
class Reply:
    """A server's refusal of a recipient, or of the text."""

    text: str
    """Code, enhanced code and words."""
    after_text: bool = False
    """Whether it comes after the text instead of after the recipient."""


@attrs.frozen
class End:
    """How a message ends."""

    status: DeliveryStatus
    disposition: DispositionKind

    def __str__(self) -> str:
        is_sent = self.disposition is DispositionKind.SENT
        return f"{self.disposition.value}, {self.status.value}" if is_sent else self.disposition.value


@attrs.frozen(kw_only=True)
class Scenario:
    """One way of failing."""

    name: str
    promise: str
    """What it shows."""
    part: str
    """What of the library keeps that promise."""
    share: float
    """Of all messages, in percent; the first scenario takes what is left."""
    end: End
    """How its messages have to end."""
    script: tuple[Reply | Act, ...] = ()
    """What the servers do at the first, second, ... try; afterwards they accept."""
    forever: bool = False
    """Whether the last entry of the script is repeated for ever."""
    copies: int = 1
    """How often the application's queue delivers the message."""
    unknown: bool = False
    """Whether its outcome has to be found out from the server."""
    hour: Hour | None = None
    """The part of the day its messages are first delivered in; None: any."""
    provider: str | None = None
    """The provider that has to take it; None: any."""
    kills: bool = False
    """Whether the worker that sends it first is killed."""
    news: tuple[EventKind, ...] = (EventKind.DELIVERED,)
    """What the provider tells after it has taken the message, in the order in which it happens."""
    travel: Travel = Travel.WEBHOOKS
    """How that reaches the application."""
    biller_dies: Death | None = None
    """When the worker that bills it first is killed; None: it is not."""


_GREYLISTED = Reply("451 4.7.1 Greylisting in action, please come back later")
_FULL = Reply("452 4.2.2 The mailbox is full and cannot take messages right now")
_THROTTLED = Reply("421 4.7.0 Too many messages from your address, slow down")

_DELIVERED = End(DeliveryStatus.DELIVERED, DispositionKind.SENT)
_BOUNCED_LATER = End(DeliveryStatus.BOUNCED_PERMANENT, DispositionKind.SENT)
_BOUNCED = End(DeliveryStatus.BOUNCED_PERMANENT, DispositionKind.BOUNCED)
_DEAD = End(DeliveryStatus.FAILED_INTERNAL, DispositionKind.DEAD_LETTERED)
_HELD = End(DeliveryStatus.FAILED_INTERNAL, DispositionKind.HELD_FOR_REVIEW)

SCENARIOS: Final[tuple[Scenario, ...]] = (
    Scenario(
        name="plain",
        promise="a message that nothing happens to is sent once, and billed once when it is delivered",
        part="dispatcher",
        share=0,
        end=_DELIVERED,
    ),
    Scenario(
        name="throttled",
        promise="421 in waves: slowed down and retried, within the throttle's own retries",
        part="provider throttling",
        share=8,
        script=(_THROTTLED, _THROTTLED),
        end=_DELIVERED,
    ),
    Scenario(
        name="refused_connection",
        promise="the main provider refuses connections: certainly not sent, so the other provider takes over",
        part="outcome and failover",
        share=8,
        hour=Hour.REFUSING,
        provider="backup",
        end=_DELIVERED,
    ),
    Scenario(
        name="reset_connection",
        promise="the main provider resets connections before the text: certainly not sent, the other takes over",
        part="outcome and failover",
        share=8,
        hour=Hour.RESETTING,
        provider="backup",
        end=_DELIVERED,
    ),
    Scenario(
        name="timeout_after_acceptance",
        promise="a read timeout after the text was taken is unknown: verified, not sent again",
        part="unknown outcomes",
        share=1,
        script=(Act.ACCEPT_THEN_HANG,),
        unknown=True,
        end=_DELIVERED,
    ),
    Scenario(
        name="hang_up_before_acceptance",
        promise="a lost connection after the text is unknown too: verified, then sent again",
        part="unknown outcomes",
        share=1,
        script=(Act.HANG_UP,),
        unknown=True,
        end=_DELIVERED,
    ),
    Scenario(
        name="greylisted",
        promise="greylisting heals: few, slow retries",
        part="temporary mailbox trouble",
        share=6,
        script=(_GREYLISTED,),
        end=_DELIVERED,
    ),
    Scenario(
        name="mailbox_full_for_a_while",
        promise="a full mailbox that is emptied: few, slow retries",
        part="temporary mailbox trouble",
        share=4,
        script=(_FULL, _FULL),
        end=_DELIVERED,
    ),
    Scenario(
        name="mailbox_full_for_good",
        promise="retries used up: to the dead letters, with the history",
        part="dead letters",
        share=2,
        script=(_FULL,),
        forever=True,
        end=_DEAD,
    ),
    Scenario(
        name="unknown_user",
        promise="an unknown user is no error of ours: marked bounced, never retried",
        part="permanent recipient failure",
        share=4,
        script=(Reply("550 5.1.1 The account you tried to reach does not exist"),),
        forever=True,
        end=_BOUNCED,
    ),
    Scenario(
        name="unknown_domain",
        promise="an unknown domain: marked bounced, never retried",
        part="permanent recipient failure",
        share=2,
        script=(Reply("550 5.1.2 The recipient's domain does not exist"),),
        forever=True,
        end=_BOUNCED,
    ),
    Scenario(
        name="content_refused",
        promise="refused content waits for a person",
        part="content and policy",
        share=3,
        script=(Reply("554 5.7.1 The message was refused as spam", after_text=True),),
        forever=True,
        end=_HELD,
    ),
    Scenario(
        name="relay_denied",
        promise="a fault of our own standing: slow retries, then the dead letters",
        part="policy matrix",
        share=1,
        script=(Reply("550 5.7.1 Relaying denied"),),
        forever=True,
        end=_DEAD,
    ),
    Scenario(
        name="missing_template_variable",
        promise="a rendering failure goes straight to the dead letters and never reaches a server",
        part="internal bugs, stages",
        share=2,
        end=_DEAD,
    ),
    Scenario(
        name="invalid_address",
        promise="an implausible address is found before sending and marked bounced",
        part="validation",
        share=2,
        end=_BOUNCED,
    ),
    Scenario(
        name="broken_payload",
        promise="a payload that is not JSON is kept byte for byte in the dead letters",
        part="dead letters",
        share=2,
        end=_DEAD,
    ),
    Scenario(
        name="delivered_three_times",
        promise="the queue delivers the same message three times: sent once",
        part="idempotency",
        share=4,
        copies=3,
        end=_DELIVERED,
    ),
    Scenario(
        name="killed_after_acceptance",
        promise="kill -9 in mid-send, after the server had taken it: verified, not sent again",
        part="lost workers, unknown outcomes",
        share=0.2,
        script=(Act.ACCEPT_THEN_HOLD,),
        unknown=True,
        hour=Hour.EVENING,
        kills=True,
        end=_DELIVERED,
    ),
    Scenario(
        name="killed_before_acceptance",
        promise="kill -9 in mid-send, before the server took it: verified, then sent",
        part="lost workers, unknown outcomes",
        share=0.2,
        script=(Act.HOLD,),
        unknown=True,
        hour=Hour.EVENING,
        kills=True,
        end=_DELIVERED,
    ),
    Scenario(
        name="bounced_later",
        promise="accepted, and bounced afterwards: the provider's event says so, nothing is billed",
        part="delivery events",
        share=3,
        news=(EventKind.BOUNCED,),
        end=_BOUNCED_LATER,
    ),
    Scenario(
        name="complained_of",
        promise="delivered, and called spam: the complaint stands beside the status",
        part="delivery events",
        share=2,
        news=(EventKind.DELIVERED, EventKind.COMPLAINED),
        end=_DELIVERED,
    ),
    Scenario(
        name="events_in_disorder",
        promise="events come twice, the last one first: the status and the bill are the same",
        part="delivery events, idempotency guard",
        share=6,
        news=(EventKind.DEFERRED, EventKind.DELIVERED, EventKind.COMPLAINED),
        travel=Travel.DISORDER,
        end=_DELIVERED,
    ),
    Scenario(
        name="events_lost",
        promise="no webhook arrives: the reconciler finds the events in the provider's own log",
        part="reconciler",
        share=4,
        travel=Travel.LOST,
        end=_DELIVERED,
    ),
    Scenario(
        name="killed_before_bill",
        promise="kill -9 before the bill is committed: no bill, until the webhook comes again",
        part="idempotency guard, outbox",
        share=0.1,
        hour=Hour.MORNING,
        biller_dies=Death.BEFORE_COMMIT,
        end=_DELIVERED,
    ),
    Scenario(
        name="killed_after_bill",
        promise="kill -9 after the bill is committed: the webhook comes again, and is not billed again",
        part="idempotency guard, outbox",
        share=0.1,
        hour=Hour.MORNING,
        biller_dies=Death.AFTER_COMMIT,
        end=_DELIVERED,
    ),
)


@attrs.frozen
class DemoMessage:
    """One message of the day, as the application's queue delivers it."""

    id: str
    body: bytes
    scenario: Scenario
    hour: Hour


_FIRST_NAMES = "Ada Grace Alan Edsger Barbara Donald Frances Ken Margaret Niklaus".split()
_CAMPAIGNS = "spring welcome receipt reminder".split()


def messages_of(total: int, seed: int) -> Sequence[DemoMessage]:
    """Return the day's messages in the order of their first delivery; the same seed gives the same day.

    Args:
        total: how many, at least `len(SCENARIOS)`.
        seed: of the order and the contents.

    Raises:
        ConfigurationError: there are fewer messages than scenarios.
    """
    if total < len(SCENARIOS):
        raise ConfigurationError(f"the day has {total} messages; it needs at least {len(SCENARIOS)}, one of each kind")
    rng = random.Random(seed)
    first, *others = SCENARIOS
    cast = [*SCENARIOS]
    for scenario in others:
        cast += [scenario] * (int(total * scenario.share / 100) - 1)
    cast = cast[:total] + [first] * (total - len(cast))
    rng.shuffle(cast)
    hours = list(Hour)
    day = [(scenario, scenario.hour or rng.choice(hours)) for scenario in cast]
    day.sort(key=lambda entry: hours.index(entry[1]))
    return [
        _message(f"demo-{seed}-{number:06d}", scenario, hour, rng) for number, (scenario, hour) in enumerate(day, 1)
    ]


def _message(message_id: str, scenario: Scenario, hour: Hour, rng: random.Random) -> DemoMessage:
    recipient = f"{scenario.name}.{message_id}@example.net"
    if scenario.name == "invalid_address":
        recipient = recipient.replace("@", " at ")
    payload: dict[str, object] = {
        "message_id": message_id,
        "campaign_id": rng.choice(_CAMPAIGNS),
        "recipient": recipient,
        "template_id": "greeting",
        "variables": {"name": rng.choice(_FIRST_NAMES), "city": "Zürich"},
    }
    if scenario.name == "missing_template_variable":
        payload["variables"] = {"city": "Zürich"}
    body = json.dumps(payload, ensure_ascii=False).encode()
    if scenario.name == "broken_payload":
        body = body[: len(body) // 2] + b"\xff"
    return DemoMessage(message_id, body, scenario, hour)
