"""What is counted of each event: the one table that all exporters of metrics share."""

from __future__ import annotations

import attrs
import pytest

from retrykit.decision import Action, DeadLetterReason, DispositionKind
from retrykit.events import BreakerChanged, Event, OutcomeVerified, RedriveChanged, UnknownCode
from retrykit.exporters.metrics import METRICS, EventMetrics
from retrykit.failure import ErrorClass, ErrorGroup
from tests.exporters.samples import AT, DEAD, EVENTS, attempt, failure, handled


def of(event):
    return list(EventMetrics().of(event))


def test_metrics_of_every_kind_of_event_fit_the_table():
    """Each kind that there is adds something, to a metric of the table, with a value for each of its labels."""
    labels = {metric.name: metric.labels for metric in METRICS}
    assert {type(event) for event in EVENTS} == {
        kind for kind in Event.__subclasses__() if kind.__module__ == Event.__module__
    }
    for event in EVENTS:
        found = of(event)
        assert found, event
        for name, value, values in found:
            assert value >= 0
            assert len(labels[name]) == len(values)


def test_metrics_have_names_of_their_own_and_no_label_of_a_message():
    """No id, recipient or campaign is a label: each message would be a time series."""
    assert len(METRICS) == len({metric.name for metric in METRICS})
    allowed = {"disposition", "error_group", "error_class", "action", "provider", "reason", "code"}
    assert {label for metric in METRICS for label in metric.labels} <= allowed | {"answer", "kind", "state", "breaker"}


def test_metrics_of_an_event_that_is_not_known_are_none():
    """An application's own kind of event is nothing to count."""

    @attrs.frozen(kw_only=True)
    class Own(Event):
        pass

    assert [] == of(Own(at=AT))


def test_metrics_of_a_message_sent_at_once_are_one_attempt():
    """A message without retries counts in the histogram too."""
    assert [("messages", 1, ("sent",)), ("message.attempts", 1, ("sent",))] == of(
        handled(DispositionKind.SENT, attempts=1)
    )


@pytest.mark.parametrize("kind", ["duplicate", "retry_scheduled", "verifying"])
def test_metrics_of_a_message_that_is_not_done_are_no_attempts(kind):
    """Its attempts are counted when it is done, once."""
    assert [("messages", 1, (kind,))] == of(handled(DispositionKind(kind), attempts=2, dead_letter_id="letter-1"))


def test_metrics_of_a_dead_message_name_the_reason():
    """Whatever left a letter counts as one, a bounce that is to be audited too."""
    assert ("dead_letters", 1, ("retries_exhausted",)) in of(DEAD)
    audited = handled(
        DispositionKind.BOUNCED, dead_letter_id="letter-1", dead_letter_reason=DeadLetterReason.POLICY_REJECTED
    )
    assert ("dead_letters", 1, ("policy_rejected",)) in of(audited)
    assert ("dead_letters", 1, ("other",)) in of(handled(DispositionKind.DISCARDED, dead_letter_id="letter-1"))
    assert not [name for name, *_ in of(handled(DispositionKind.BOUNCED)) if name == "dead_letters"]


def test_metrics_of_a_failed_attempt_name_group_class_action_and_provider():
    """The wait is measured where there is one; the provider counts where it is known."""
    assert [
        ("attempts.failed", 1, ("temporary_mailbox", "mailbox_full", "retry")),
        ("provider.failures", 1, ("ses", "temporary_mailbox")),
        ("retry.delay", 900.0, ()),
    ] == of(attempt())
    last = of(attempt(action=Action.DEAD_LETTER, delay=0.0, provider=None))
    assert [("attempts.failed", 1, ("temporary_mailbox", "mailbox_full", "dead_letter"))] == last


@pytest.mark.parametrize(
    ("answer", "accepted", "error"),
    [("accepted", True, None), ("not_accepted", False, None), ("unknown", None, None), ("failed", None, "OSError")],
)
def test_metrics_of_a_verified_outcome_name_the_answer(answer, accepted, error):
    """That nobody could be asked is told from that nobody could tell."""
    event = OutcomeVerified(at=AT, message_id="m", accepted=accepted, error=error)
    assert [("outcomes.verified", 1, (answer,))] == of(event)


def test_metrics_with_ten_thousand_codes_classes_and_providers_stay_bounded():
    """Each label takes a hundred values and counts the rest as one; built-in classes are always told apart."""
    metrics = EventMetrics()
    series = set()
    for number in range(10_000):
        own = ErrorClass(f"own_{number}", group=ErrorGroup.INTERNAL)
        seen = failure(own, provider=f"provider-{number}", code=f"X-{number}")
        for event in (
            UnknownCode(at=AT, code=f"X-{number}", provider=f"provider-{number}", failure=seen),
            attempt(error_class=own, provider=f"provider-{number}"),
            BreakerChanged(at=AT, name=f"breaker-{number}", before="closed", after="open"),
            RedriveChanged(at=AT, redrive_id="r", state=f"state-{number}", note=""),
        ):
            series.update((name, values) for name, _, values in metrics.of(event))
    assert 5 * 101 + 1 == len(
        series
    )  # unknown_codes, attempts.failed, provider.failures, breakers, redrives; the delay
    assert 100 == len(metrics.breakers)
    again = list(metrics.of(attempt(error_class=ErrorClass.UNKNOWN)))
    assert ("attempts.failed", 1, ("unmapped", "unknown", "retry")) == again[0]
