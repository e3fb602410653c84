"""The contracts themselves: what a subclass has to write, and that both colours are one contract."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta

import pytest

from retrykit import stores
from retrykit.backends import MemoryBackend
from retrykit.dead_letter import DeadLetterState
from retrykit.errors import ConfigurationError, InvalidMessageError
from retrykit.failure import ErrorClass
from retrykit.message import Message
from retrykit.stores import AsyncClaimStore, ClaimStore, DeadLetterQuery, Delivery, DeliveryStatus

PAIRS = ["ClaimStore", "RetryStore", "DeadLetterStore", "DeliveryStore", "CircuitStore", "RedriveStore", "SignalStore"]
MADE_OF_OTHERS = {
    "DeliveryStore": ({"apply"}, set()),
    "DeadLetterStore": ({"group", "put_back", "supersede", "discard", "edit"}, {"_change"}),
    "RedriveStore": ({"hold"}, set()),
}
"""The operations that are made of other primitives, and primitives of which only such operations are made."""


def operations(cls):
    """Return the public operations that the class itself defines."""
    return {name: member for name, member in vars(cls).items() if callable(member) and not name.startswith("_")}


@pytest.mark.parametrize("name", PAIRS)
def test_colours_of_a_contract_have_the_same_operations(name):
    """Names, parameters, defaults and answers are equal; only the asynchronous ones are awaited."""
    sync, asynchronous = operations(getattr(stores, name)), operations(getattr(stores, f"Async{name}"))
    assert list(sync) == list(asynchronous)
    for operation, method in sync.items():
        twin = asynchronous[operation]
        assert inspect.signature(method) == inspect.signature(twin)
        assert (False, True) == (inspect.iscoroutinefunction(method), inspect.iscoroutinefunction(twin))
        assert method.__final__ is twin.__final__ is True


@pytest.mark.parametrize("name", PAIRS)
def test_colours_of_a_contract_need_the_same_primitives(name):
    """A subclass writes one primitive for each operation, and cannot be made without one of them."""
    contract, twin = getattr(stores, name), getattr(stores, f"Async{name}")
    assert contract.__abstractmethods__ == twin.__abstractmethods__
    others, more = MADE_OF_OTHERS.get(name, (set(), set()))
    own = {f"_{each}" for each in operations(contract) if each not in others}
    assert own | more == contract.__abstractmethods__
    for cls in (contract, twin):
        with pytest.raises(TypeError, match="abstract"):
            cls()


def test_subclass_of_an_application_gets_checked_arguments():
    """The public methods check and normalise; a primitive sees seconds and valid keys only."""
    seen = []

    class Own(ClaimStore):
        def _claim(self, *args):
            seen.append(args)
            return "claimed"

        def _get(self, key):
            raise KeyError(key)

        _claim_unknown = _begin_send = _settle = _confirm = _unsettled = None

    Own.__abstractmethods__ = frozenset()
    assert Own().claim("k", owner="me", lease="1m") == "claimed"
    assert [("k", None, "me", 60.0, stores.ClaimTerms())] == seen
    with pytest.raises(KeyError, match="k"):
        Own().get("k")
    assert issubclass(AsyncClaimStore, AsyncClaimStore.__mro__[1])


def test_every_public_name_exists():
    """`__all__` is what the documentation shows."""
    assert sorted(stores.__all__) == sorted(name for name in stores.__all__ if hasattr(stores, name))


@pytest.mark.parametrize("key", ["campaign", "campaign:", ":x", "Campaign:x", "message:x", " campaign:x"])
def test_key_of_what_cannot_be_paused_is_named(key):
    """With what can be."""
    circuits = MemoryBackend().circuits
    message = f"the key of a pause is {key!r}; allowed are 'campaign:<name>', 'provider:<name>', 'tenant:<name>'"
    for call in (lambda: circuits.pause(key, reason="r", by="ada"), lambda: circuits.resume(key)):
        with pytest.raises(ConfigurationError) as caught:
            call()
        assert message == str(caught.value)


@pytest.mark.parametrize("key", ["", "x" * 256, "\0"])
def test_key_that_no_store_keeps_is_named(key):
    """The same keys as everywhere."""
    circuits = MemoryBackend().circuits
    for call in (lambda: circuits.pause(key, reason="r", by="ada"), lambda: circuits.resume(key)):
        with pytest.raises(InvalidMessageError, match=r"^the key "):
            call()


def test_naive_instant_of_a_contract_is_named():
    """By the name of its argument."""
    backend, naive = MemoryBackend(), datetime(2026, 1, 1)  # noqa: DTZ001 - on purpose
    for name, call in (
        ("until", lambda: backend.circuits.pause("tenant:a", reason="r", by="ada", until=naive)),
        ("before", lambda: backend.dead_letters.purge(naive)),
        ("before", lambda: backend.deliveries.purge(naive)),
        ("before", lambda: backend.claims.purge(naive)),
        ("due_at", lambda: backend.retries.schedule(Message("m", 1), naive)),
        ("updated_at", lambda: Delivery(message_id="m", status=DeliveryStatus.UNKNOWN, updated_at=naive)),
    ):
        with pytest.raises(ConfigurationError, match=rf"^{name} is the naive datetime"):
            call()


@pytest.mark.parametrize("facet", ["", "recipient", "id"])
def test_field_that_letters_cannot_be_counted_by_is_named(facet):
    """With those they can be counted by."""
    with pytest.raises(ConfigurationError) as caught:
        MemoryBackend().dead_letters.top(facet)
    assert str(caught.value) == (
        f"letters cannot be counted by {facet!r}; allowed are error_class, error_group, error_code, provider, "
        "campaign_id, reason, state, stage, fingerprint"
    )


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "1", None])
def test_limit_that_is_no_count_is_named(limit):
    """The same everywhere."""
    backend = MemoryBackend()
    for call in (
        lambda: backend.dead_letters.search(limit=limit),
        lambda: backend.dead_letters.top("state", limit=limit),
        lambda: backend.deliveries.with_status("unknown", limit=limit),
        lambda: backend.claims.unsettled(limit),
        lambda: backend.claims.purge(datetime(2026, 1, 1, tzinfo=UTC), limit=limit),
        lambda: backend.retries.claim_due(limit, owner="me"),
        lambda: backend.circuits.lease_probe("ses", owner="p", limit=limit),
        lambda: backend.redrives.jobs(limit=limit),
        lambda: backend.redrives.audit(limit=limit),
    ):
        with pytest.raises(ConfigurationError) as caught:
            call()
        assert f"limit is {limit!r}; allowed are whole numbers >= 1" == str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        backend.circuits.record_probe("ses", 1, succeeded=True, close_after=limit)
    assert f"close_after is {limit!r}; allowed are whole numbers >= 1" == str(caught.value)


@pytest.mark.parametrize(("calls", "failures"), [(1, 2), (-1, -1), (1, -1)])
def test_report_that_contradicts_itself_is_named(calls, failures):
    """Both numbers."""
    with pytest.raises(ConfigurationError) as caught:
        MemoryBackend().circuits.report("ses", instance="i", calls=calls, failures=failures, length=5)
    message = f"{failures} failures of {calls} calls cannot be; allowed is 0 <= failures <= calls"
    assert message == str(caught.value)


def test_status_that_does_not_exist_is_named():
    """A status is one of nine."""
    with pytest.raises(
        ConfigurationError, match=r"^the status is 'lost'; allowed are pending, processing, sent_to_prov"
    ):
        MemoryBackend().deliveries.with_status("lost")


def test_instant_of_a_report_is_cut_to_the_millisecond():
    """So that it survives a store unchanged."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    report = Delivery(message_id="m", status=DeliveryStatus.UNKNOWN, updated_at=now + timedelta(microseconds=1999))
    assert now + timedelta(milliseconds=1) == report.updated_at


def test_query_conditions_are_the_fields_given():
    """None is no condition, the empty text is one."""
    query = DeadLetterQuery(message_id="", error_class=ErrorClass.MAILBOX_FULL, state=DeadLetterState.RESOLVED)
    assert query.conditions() == {"message_id": "", "error_class": "mailbox_full", "state": "resolved"}
    assert DeadLetterQuery().conditions() == {}


@pytest.fixture
def held():
    """A backend with a claim and a waiting message that are held."""
    backend = MemoryBackend()
    backend.retries.schedule(Message("k", 1), datetime(2026, 1, 1, tzinfo=UTC))
    (due,) = backend.retries.claim_due(owner="me")
    return backend, backend.claims.claim("k", owner="me").record, due


@pytest.mark.parametrize("value", [-1, float("nan"), "soon", None, True])
def test_value_that_is_no_duration_is_named(held, value):
    """By the name of its argument, and with the value seen; a lease of zero is none either."""
    backend, record, due = held
    delays = (
        lambda delay: backend.claims.settle(record, record.seq, delay=delay),
        lambda delay: backend.retries.release(due, delay=delay),
    )
    leases = (
        lambda lease: backend.claims.claim("k", owner="me", lease=lease),
        lambda lease: backend.claims.claim_unknown("k", owner="me", lease=lease),
        lambda lease: backend.claims.begin_send("k", 1, lease=lease),
        lambda lease: backend.claims.renew("k", 1, lease=lease),
        lambda lease: backend.retries.claim_due(owner="me", lease=lease),
        lambda lease: backend.retries.extend(due, lease=lease),
        lambda lease: backend.circuits.lease_probe("ses", owner="p", lease=lease),
        lambda lease: backend.redrives.hold("r-1", owner="me", lease=lease),
    )
    recoveries = (
        lambda recovery: backend.circuits.trip("ses", by="me", recovery=recovery),
        lambda recovery: backend.circuits.record_probe("ses", 1, succeeded=False, recovery=recovery),
    )
    lengths = (lambda length: backend.circuits.report("ses", instance="i", calls=1, failures=0, length=length),)
    for name, calls, values in (
        ("delay", delays, [value]),
        ("lease", leases, [value, 0]),
        ("recovery", recoveries, [value, 0]),
        ("length", lengths, [value, 0]),
    ):
        for call in calls:
            for seen in values:
                with pytest.raises(ConfigurationError) as caught:
                    call(seen)
                assert str(caught.value).startswith(f"{name} is {seen!r}; allowed ")


@pytest.mark.parametrize("key", ["", "x" * 256, "a\0b", "\ud800", None, 5])
def test_value_that_is_no_key_is_named(key):
    """As the key of a claim, and as the id of a waiting message."""
    backend = MemoryBackend()
    for call in (
        lambda: backend.claims.claim(key, owner="me"),
        lambda: backend.claims.claim_unknown(key, owner="me"),
        lambda: backend.claims.begin_send(key, 1, lease=30),
        lambda: backend.claims.renew(key, 1),
        lambda: backend.claims.confirm(key),
        lambda: backend.claims.cancel(key),
        lambda: backend.claims.reopen(key, stores.ReopenTerms(letter_id="k#1", generation=1)),
        lambda: backend.claims.get(key),
    ):
        with pytest.raises(InvalidMessageError, match=r"^the key "):
            call()
    with pytest.raises(InvalidMessageError, match=r"^the message id "):
        backend.retries.cancel(key)
    for call in (
        lambda: backend.redrives.get(key),
        lambda: backend.redrives.change(key, lambda job, _: job),
        lambda: backend.redrives.hold(key, owner="me", lease=30),
    ):
        with pytest.raises(InvalidMessageError, match=r"^the job_id "):
            call()
    with pytest.raises(InvalidMessageError, match=r"^the name "):
        backend.signals.get(key)
