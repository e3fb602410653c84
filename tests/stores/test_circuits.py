"""The circuit store's contract, the same for every backend and colour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from retrykit.errors import ConfigurationError, InvalidMessageError
from retrykit.stores import Pause


def test_pause_holds_until_it_is_resumed(backend, clock):
    """With the reason, by whom and since when."""
    expected = Pause(key="campaign:spring", reason="wrong template", by="ada", since=clock.now())
    assert expected == backend.circuits.pause("campaign:spring", reason="wrong template", by="ada")
    clock.advance("1000d")
    assert [expected] == list(backend.circuits.pauses())
    assert backend.circuits.resume("campaign:spring") is True
    assert list(backend.circuits.pauses()) == []


def test_resume_of_what_is_not_paused_is_false(backend):
    """A repeated resume is no error."""
    assert backend.circuits.resume("campaign:spring") is False
    backend.circuits.pause("campaign:spring", reason="r", by="ada")
    assert [True, False] == [backend.circuits.resume("campaign:spring") for _ in range(2)]


def test_pause_with_an_end_is_over_at_that_instant(backend, clock):
    """A pause that is over is the same as none."""
    until = clock.now() + timedelta(minutes=5)
    backend.circuits.pause("provider:ses", reason="r", by="ada", until=until)
    clock.advance("299999ms")
    assert [until] == [pause.until for pause in backend.circuits.pauses()]
    clock.advance("1ms")
    assert list(backend.circuits.pauses()) == []
    assert backend.circuits.resume("provider:ses") is False


def test_resume_before_the_end_is_true(backend, clock):
    """It was in force."""
    backend.circuits.pause("provider:ses", reason="r", by="ada", until=clock.now() + timedelta(minutes=5))
    assert backend.circuits.resume("provider:ses") is True


def test_pause_replaces_the_one_before(backend, clock):
    """One pause for each key: the latest, also after one that is over."""
    backend.circuits.pause("provider:ses", reason="first", by="ada", until=clock.now() + timedelta(seconds=1))
    for reason in ("second", "third"):
        clock.advance("10s")
        expected = Pause(key="provider:ses", reason=reason, by="bob", since=clock.now())
        assert expected == backend.circuits.pause("provider:ses", reason=reason, by="bob")
        assert [expected] == list(backend.circuits.pauses())


def test_pauses_come_in_the_order_of_their_keys(backend):
    """The order is the same in every store."""
    keys = ["campaign:Z", "campaign:b", "campaign:ü", "provider:a", "tenant::"]
    for key in reversed(keys):
        backend.circuits.pause(key, reason="r", by="ada")
    assert keys == [pause.key for pause in backend.circuits.pauses()]


def test_pause_until_an_instant_in_another_zone_is_in_utc(backend, clock):
    """The instant is the same, cut to the millisecond."""
    until = datetime(2026, 1, 1, 5, 0, 0, 1999, timezone(timedelta(hours=2)))
    pause = backend.circuits.pause("provider:ses", reason="r", by="ada", until=until)
    assert datetime(2026, 1, 1, 3, 0, 0, 1000, UTC) == pause.until
    assert [pause] == list(backend.circuits.pauses())


def test_pause_until_a_naive_instant_is_refused(backend):
    """It could mean any zone."""
    with pytest.raises(ConfigurationError, match=r"^until is the naive datetime"):
        backend.circuits.pause("provider:ses", reason="r", by="ada", until=datetime(2026, 1, 1))  # noqa: DTZ001
    assert list(backend.circuits.pauses()) == []


@pytest.mark.parametrize("key", ["", "x" * 256, "\0"])
def test_key_that_is_not_allowed_is_refused(backend, key):
    """The same keys as everywhere."""
    for call in (lambda: backend.circuits.pause(key, reason="r", by="ada"), lambda: backend.circuits.resume(key)):
        with pytest.raises(InvalidMessageError, match=r"^the key "):
            call()


@pytest.mark.parametrize("key", ["campaign", "campaign:", ":x", "Campaign:x", "message:x", " campaign:x"])
def test_key_of_what_cannot_be_paused_is_refused(backend, key):
    """A pause that holds nothing back would be a trap."""
    message = f"the key of a pause is {key!r}; allowed are 'campaign:<name>', 'provider:<name>', 'tenant:<name>'"
    for call in (lambda: backend.circuits.pause(key, reason="r", by="ada"), lambda: backend.circuits.resume(key)):
        with pytest.raises(ConfigurationError) as caught:
            call()
        assert message == str(caught.value)
