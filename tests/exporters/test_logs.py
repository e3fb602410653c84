"""Events as lines of a log, and the listener that is there when none is given."""

from __future__ import annotations

import logging

import pytest

from retrykit import Action, Dispatcher, PolicyMatrix, RetryPolicy, RetryScheduler, open_backend
from retrykit.backends import MemoryBackend
from retrykit.decision import DispositionKind
from retrykit.errors import ConfigurationError
from retrykit.events import BreakerChanged, OutcomeVerified, RedriveChanged
from retrykit.exporters.logs import LogListener
from retrykit.failure import ErrorGroup
from retrykit.message import Message
from retrykit.testing import ManualClock
from tests import capabilities
from tests.exporters.samples import ADDRESS, AT, DEAD, EVENTS, handled
from tests.fresh import run_fresh

DIES = PolicyMatrix({group: RetryPolicy.never(Action.DEAD_LETTER) for group in ErrorGroup})


@pytest.fixture
def lines(caplog):
    """All that is logged, by level and text."""
    caplog.set_level(logging.DEBUG, "retrykit")

    def lines():
        return [(record.levelname, record.getMessage()) for record in caplog.records]

    return lines


def test_listener_told_of_every_kind_of_event_logs_what_is_worth_it(lines):
    """Nothing for what went well; what a person should look at is a warning or worse."""
    for event in EVENTS:
        LogListener()(event)
    assert [
        ("INFO", "attempt 1 of 'welcome-17' failed: mailbox_full, retry"),
        ("WARNING", "the breaker 'ses' is open, was closed"),
        ("WARNING", "the delivery of 'welcome-17' is missing: the log and ses do not agree"),
        ("WARNING", "'welcome-17' is dead_lettered after 4 attempts: mailbox_full; dead letter letter-1"),
        ("ERROR", "'welcome-17' is quarantined as poison; dead letter letter-1"),
        ("INFO", "it was asked whether 'welcome-17' was sent: the provider has it"),
        (
            "WARNING",
            "'welcome-17' could not be put into the application's queue, it stays in the retry queue: ConnectionError",
        ),
        ("WARNING", "the redrive 'r-1' is stopped"),
        ("WARNING", "no rule knows the code 'X-99' of ses"),
    ] == lines()


@pytest.mark.parametrize(
    ("level", "event"),
    [
        ("INFO", handled(DispositionKind.BOUNCED)),
        ("WARNING", handled(DispositionKind.HELD_FOR_REVIEW)),
        ("WARNING", handled(DispositionKind.DISCARDED)),
        ("INFO", BreakerChanged(at=AT, name="ses", before="open", after="closed")),
        ("INFO", RedriveChanged(at=AT, redrive_id="r-1", state="done", note="")),
        ("INFO", OutcomeVerified(at=AT, message_id="m", accepted=False)),
        ("INFO", OutcomeVerified(at=AT, message_id="m", accepted=None)),
    ],
)
def test_listener_logs_at_the_level_of_what_happened(level, event, lines):
    """A bounce is everyday, and a breaker that closes is good news."""
    LogListener()(event)
    assert [level] == [found for found, _ in lines()]


def test_listener_logs_no_texts_of_others(caplog):
    """Whatever a provider or an exception said, no address comes into the log: neither its text nor its fields."""
    caplog.set_level(logging.DEBUG, "retrykit")
    for event in EVENTS:
        LogListener()(event)
    assert ADDRESS not in "".join(str(vars(record)) for record in caplog.records)


def test_listener_gives_the_fields_to_the_record(caplog):
    """A formatter that writes JSON finds them beside the text."""
    LogListener(logging.getLogger("mailer"))(DEAD)
    (record,) = caplog.records
    wanted = {
        "name": "mailer",
        "kind": "MessageHandled",
        "message_id": "welcome-17",
        "disposition": "dead_lettered",
        "attempts": 4,
        "dead_letter_id": "letter-1",
        "dead_letter_reason": "retries_exhausted",
        "error_class": "mailbox_full",
        "error_group": "temporary_mailbox",
        "error_code": "452",
        "provider": "ses",
    }
    assert wanted == {name: vars(record)[name] for name in wanted}
    assert not hasattr(record, "stage"), "a field that says nothing is left out"


def test_listener_with_an_adapter_of_logging_logs_through_it(caplog):
    """What an application puts around its logger stays there."""

    class Named(logging.LoggerAdapter):
        def process(self, msg, kwargs):
            return f"[mailer] {msg}", kwargs

    LogListener(Named(logging.getLogger("mailer"), {}))(DEAD)
    assert caplog.records[0].getMessage().startswith("[mailer] 'welcome-17' is dead_lettered")


@pytest.mark.skipif(not capabilities.is_present("structlog"), reason="needs structlog")
def test_listener_with_a_logger_of_structlog_gives_it_the_fields_as_keywords():
    """The text is structlog's event."""
    import structlog
    from structlog.testing import capture_logs

    with capture_logs() as captured:
        for event in EVENTS:
            LogListener(structlog.get_logger())(event)
    assert 9 == len(captured)
    (dead,) = [line for line in captured if line["kind"] == "MessageHandled"]
    assert ("warning", "welcome-17", "mailbox_full") == (dead["log_level"], dead["message_id"], dead["error_class"])
    assert dead["event"].startswith("'welcome-17' is dead_lettered")


@pytest.mark.parametrize(
    ("logger", "message"),
    [
        (5, "logger is 5, which has no error; allowed is a logger, such as logging.getLogger('mailer')"),
        ("mailer", "logger is 'mailer', which has no error; allowed is a logger"),
        (print, "logger is <built-in function print>, which has no error; allowed is a logger"),
        (logging.Logger, "logger is the class Logger; allowed is a logger"),
    ],
)
def test_listener_with_what_is_no_logger_refuses_it(logger, message):
    """When it is made: a listener that raises later is passed over."""
    with pytest.raises(ConfigurationError) as caught:
        LogListener(logger)
    assert str(caught.value).startswith(message)


def test_dispatcher_without_listeners_logs_what_it_gives_up_and_nothing_else(lines):
    """One warning for the message that died; none for the one that was sent."""
    outcomes = iter([None, ValueError(ADDRESS)])

    def send(message, key):
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome

    dispatcher = Dispatcher(send, backend=open_backend("memory://"), matrix=DIES)
    died = [dispatcher.handle({"id": f"m-{number}"}) for number in range(2)][1]
    assert [
        ("INFO", "attempt 1 of 'm-1' failed: unknown, dead_letter"),
        ("WARNING", f"'m-1' is dead_lettered after 1 attempt: unknown; dead letter {died.dead_letter_id}"),
    ] == [line for line in lines() if "no rule knows" not in line[1]]


def test_dispatcher_with_listeners_of_its_own_logs_nothing(lines):
    """What is given takes the place of the default, also when it is none."""
    Dispatcher(lambda message, key: 1 / 0, backend=open_backend("memory://"), matrix=DIES, on_event=[]).handle(
        {"id": "m"}
    )
    assert [] == lines()


def test_scheduler_without_listeners_logs_what_it_cannot_publish(lines):
    """A queue that refuses messages is not passed over in silence."""
    clock = ManualClock()
    backend = MemoryBackend(clock=clock)
    backend.retries.schedule(Message(id="m", payload=None), clock.now())

    def publish(message):
        raise ConnectionError(ADDRESS)

    assert 0 == RetryScheduler(backend, publish, clock=clock).run_once()
    ((level, text),) = lines()
    assert "WARNING" == level
    assert text.endswith("it stays in the retry queue: ConnectionError")


def test_dispatcher_that_gives_nothing_up_does_not_load_logging():
    """The listener that is there by default costs no import until it has something to say."""
    loaded = run_fresh(
        "import json, sys\n"
        "from retrykit.exporters.logs import LOGGED\n"
        "from retrykit.events import MessageHandled\n"
        "from retrykit.decision import Disposition, DispositionKind\n"
        "from datetime import UTC, datetime\n"
        "sent = Disposition(kind=DispositionKind.SENT, message_id='m')\n"
        "LOGGED[0](MessageHandled(at=datetime.now(UTC), disposition=sent))\n"
        "print(json.dumps('logging' in sys.modules))"
    )
    assert loaded is False
