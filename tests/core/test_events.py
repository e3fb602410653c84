"""Events reach their listeners, and a listener never breaks a call."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import attrs
import pytest

from retrykit import events
from retrykit.errors import ConfigurationError
from retrykit.events import Event, PublishFailed, emit, listeners_of

EVENT = PublishFailed(at=datetime(2026, 1, 1, tzinfo=UTC), message_id="welcome-17", error="queue is full")


def test_emit_tells_every_listener_in_order():
    """Each listener gets the event itself, in the order given."""
    heard = []
    emit([lambda event: heard.append((1, event)), lambda event: heard.append((2, event))], EVENT)
    assert [(1, EVENT), (2, EVENT)] == heard


def test_emit_with_a_raising_listener_logs_it_and_goes_on(caplog):
    """The error is logged with the listener's name and its traceback; the next listener hears the event."""
    heard = []

    def broken(event):
        raise ZeroDivisionError(event.message_id)

    emit([broken, heard.append], EVENT)
    assert [EVENT] == heard
    (record,) = caplog.records
    assert ("retrykit.events", logging.ERROR) == (record.name, record.levelno)
    assert "broken" in record.message
    assert record.message.endswith("failed on PublishFailed")
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_emit_with_an_interrupted_listener_lets_the_interruption_through(signal):
    """Only errors are swallowed."""

    def interrupted(_event):
        raise signal

    with pytest.raises(signal):
        emit([interrupted], EVENT)


class _Hooks:
    def __init__(self):
        self.heard = []

    def on_event(self, event):
        self.heard.append(event)

    def __call__(self, event):
        self.heard.append(event)


def test_emit_calls_bound_methods_and_callable_objects():
    """A listener is any callable of one argument."""
    hooks = _Hooks()
    emit((hooks.on_event, hooks), EVENT)
    assert [EVENT, EVENT] == hooks.heard


@pytest.mark.parametrize("given", [[], (), iter([print, len]), {print}])
def test_listeners_of_any_iterable_are_a_tuple(given):
    """What was given is read once, and later changes to it change nothing."""
    listeners = listeners_of(given)
    assert type(listeners) is tuple
    assert set(listeners) <= {print, len}


@pytest.mark.parametrize("given", [print, None, 5, _Hooks(), _Hooks])
def test_listeners_of_something_else_is_refused(given):
    """A single function is an easy mistake, found at once."""
    with pytest.raises(ConfigurationError) as caught:
        listeners_of(given)
    assert f"on_event is {given!r}; allowed is a list of functions, for example [print]" == str(caught.value)


@pytest.mark.parametrize("given", [[print, None], "print", ["print"]])
def test_listeners_of_a_list_with_something_else_is_refused(given):
    """The one that is no function is named."""
    with pytest.raises(ConfigurationError, match=r"^a listener of on_event is .*; allowed are functions of one event$"):
        listeners_of(given)


@pytest.mark.parametrize("name", sorted(set(events.__all__) - {"Listener", "MismatchKind", "emit", "listeners_of"}))
def test_event_is_frozen_keyword_only_and_carries_its_instant(name):
    """Events are records: nobody changes what others will see."""
    cls = getattr(events, name)
    assert issubclass(cls, Event)
    assert {True} == {field.kw_only for field in attrs.fields(cls)}
    assert attrs.fields(cls)[0].name == "at"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        EVENT.error = "other"


def test_listener_that_would_have_to_be_awaited_is_refused():
    """Nobody awaits it, so it would hear nothing; the argument is named."""

    async def listener(event):
        """Hear."""

    with pytest.raises(ConfigurationError, match=r"a listener of hooks is the coroutine function .* never awaited"):
        listeners_of([print, listener], "hooks")
