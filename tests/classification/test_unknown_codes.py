"""Codes that no rule knows are announced once each, and are never "bounced"."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from retrykit import Dispatcher
from retrykit.backends.memory import MemoryBackend
from retrykit.classification import ErrorClassifier, HttpReply, Rule, SmtpReply
from retrykit.classification.unknown_codes import MAX_CODES
from retrykit.delivery import EventKind, ProviderEvent
from retrykit.events import Event, UnknownCode
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.testing import manual_clock


class NewError(Exception):
    """Nobody knows it."""


def problem(code: str, status: int = 400) -> HttpReply:
    return HttpReply(status, body={"error": {"code": code, "message": "something"}})


@pytest.mark.parametrize(
    ("signal", "code"),
    [
        (SmtpReply(550, "no"), "550"),
        (SmtpReply(550, "5.9.9 no"), "5.9.9"),
        (problem("brand_new"), "brand_new"),
        (problem("brand_new", 429), "brand_new"),
        (ProviderEvent(provider="ses", kind=EventKind.BOUNCED, codes=("BrandNew",)), "BrandNew"),
        (NewError("x"), f"{__name__}.NewError"),
        (KeyError("x"), "KeyError"),
    ],
    ids=str,
)
def test_unknown_code_is_told_once(signal: Any, code: str) -> None:
    """Once for each code, with what it was taken for; not once for each failure."""
    heard: list[Any] = []
    with manual_clock() as clock:
        classifier = ErrorClassifier(on_event=[heard.append])
        for _ in range(3):
            failure = classifier.classify(signal, provider="p")
        assert [(type(event), event.code, event.at, event.failure) for event in heard] == [
            (UnknownCode, code, clock.now(), failure)
        ]
        assert failure.group is not ErrorGroup.PERMANENT_RECIPIENT


@pytest.mark.parametrize(
    "signal",
    [
        SmtpReply(550, "5.1.1 user unknown"),
        SmtpReply(451, "no"),
        HttpReply(503),
        problem("rate_limited"),
        TimeoutError("x"),
    ],
    ids=str,
)
def test_known_code_is_not_told(signal: Any) -> None:
    """What a rule knows is no news."""
    heard: list[Event] = []
    classifier = ErrorClassifier([Rule("own", ErrorClass.UNKNOWN, tokens="rate_limited")], on_event=[heard.append])
    for _ in range(2):
        classifier.classify(signal)
    assert heard == []


def test_unknown_code_of_each_provider_is_told() -> None:
    """The same code of two providers is two codes."""
    heard: list[Any] = []
    classifier = ErrorClassifier(on_event=[heard.append])
    for provider in ("a", "b", "a"):
        classifier.classify(SmtpReply(550, "no"), provider=provider)
    assert [event.provider for event in heard] == ["a", "b"]


def test_unknown_code_is_told_once_to_threads() -> None:
    """Also where many meet it at once."""
    heard: list[Event] = []
    classifier = ErrorClassifier(on_event=[heard.append])
    start = threading.Barrier(8)

    def meet() -> None:
        start.wait()
        for number in range(50):
            classifier.classify(SmtpReply(550, f"5.9.{number} no"))

    threads = [threading.Thread(target=meet) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(heard) == 50


def test_codes_that_a_server_makes_up_do_not_pile_up() -> None:
    """What is remembered is bounded."""
    heard: list[Event] = []
    classifier = ErrorClassifier(on_event=[heard.append])
    for number in range(MAX_CODES + 10):
        classifier.classify(problem(f"made_up_{number}"))
    assert len(heard) == MAX_CODES


def test_dispatcher_tells_its_listeners_of_unknown_codes() -> None:
    """Its own classifier speaks to those who listen to it."""
    heard: list[Event] = []

    def send(message: object, key: str) -> None:
        raise NewError("x")

    dispatcher = Dispatcher(send, backend=MemoryBackend(), on_event=[heard.append])
    dispatcher.handle({"id": "m1"})
    assert [event.code for event in heard if isinstance(event, UnknownCode)] == [f"{__name__}.NewError"]
