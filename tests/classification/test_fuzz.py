"""Anything at all is answered: random signals, a million of them in a soak."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from retrykit.classification import ErrorClassifier, HttpReply, SmtpReply
from retrykit.classification.classifier import MAX_MESSAGE
from retrykit.classification.smtp_rules import SMTP_RULES
from retrykit.delivery import parse_bounce, parse_events
from retrykit.errors import InvalidPayloadError

PHRASES = sorted({phrase for rule in SMTP_RULES for phrase in (*rule.words, *rule.also)})
PIECES = [
    *PHRASES,
    *"550- 550 421 5.1.1 4.2.2 #5.7.1 (5.0.0) 5.7.606 [TSS04] OFR_506 AUP#In-1310 MI:SPB <> <a@b> a@b https://x.example/y?z".split(),
    *("\n", "\r\n", "\t", "\x00", "\ud800", "\ufeff", "\u202e", "ß", "İ", "\U0001f4a9"),
    "in reply to RCPT TO command",
    "try again in 300 seconds",
]
KEYS = "error errors code message status name type reason detail title __type Code Message ErrorCode Type bounce event data".split()
NAMES = ["ses", "sendgrid", "twilio", "postmark", "mailgun", "stripe", "nobody", "", None]


def text(rng: random.Random) -> str:
    said = " ".join(rng.choice(PIECES) for _ in range(rng.randrange(12)))
    return said.upper() if rng.random() < 0.1 else said


def document(rng: random.Random, depth: int = 3) -> Any:
    kind = rng.randrange(9 if depth else 6)
    if kind < 6:
        return [None, True, rng.randrange(-1, 70_000), rng.random() * 1e20, text(rng), str(rng.randrange(70_000))][kind]
    if kind == 6:
        return [document(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(KEYS): document(rng, depth - 1) for _ in range(rng.randrange(5))}


def fields(rng: random.Random) -> list[tuple[str, str]]:
    names = [
        "Retry-After",
        "retry-after-ms",
        "RateLimit",
        "X-RateLimit-Reset",
        "Date",
        "x-amzn-errortype",
        "Stripe-Should-Retry",
    ]
    values = [
        "30",
        "-1",
        "nan",
        "Mon, 30 Nov 2026 10:00:00 GMT",
        "t=5",
        "1e400",
        "true",
        "ThrottlingException:http://x",
    ]
    return [(rng.choice(names), rng.choice([*values, text(rng)])) for _ in range(rng.randrange(4))]


def signals(rng: random.Random) -> list[Any]:
    code = rng.choice([None, 250, 421, 450, 550, 554, -1, 9999, "550", "x"])
    said = text(rng)
    reply = SmtpReply(code, said if rng.random() < 0.8 else said.encode("utf-8", "replace"))
    body = document(rng)
    sent: Any = body if isinstance(body, (dict, list)) else json.dumps(body)
    answer = HttpReply(rng.choice([None, 200, 400, 404, 429, 500, 504, 700]), fields(rng), sent)
    error = rng.choice([OSError, ValueError, ConnectionError, TimeoutError, KeyError])(said)
    error.__cause__ = rng.choice([None, ConnectionResetError(said)])
    made: list[Any] = [reply, answer, error, *parse_bounce(said)[:1]]
    with contextlib.suppress(InvalidPayloadError):
        made += parse_events(rng.choice(NAMES) or "ses", json.dumps(body))
    return made


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_random_signal_gets_one_answer_of_bounded_size(part: int, scale: Callable[[int], int]) -> None:
    """Never an exception, twice the same, and no more evidence than is worth keeping."""
    first, second = ErrorClassifier(), ErrorClassifier()
    count = scale(20_000)
    for seed in range(part * count, (part + 1) * count):
        rng = random.Random(seed)
        for signal in signals(rng):
            provider = rng.choice(NAMES)
            failure = first.classify(signal, provider=provider)
            told = (failure.error_class, failure.rule, failure.outcome, failure.error_code)
            again = second.explain(signal, provider=provider).failure
            assert told == (again.error_class, again.rule, again.outcome, again.error_code), seed
            assert len(failure.error_message) <= MAX_MESSAGE + 100, seed
            assert failure.retry_after is None or 0 <= failure.retry_after <= 366 * 86_400, (seed, failure.retry_after)
