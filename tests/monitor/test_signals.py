"""The fleet's record: what is added counts once, what is old goes, its size is bounded, its time never goes back."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.errors import ConfigurationError
from retrykit.machines.alert_rules import (
    DEFAULT_RULES,
    BacklogGrows,
    BreakerOpens,
    DeadLettersJump,
    ErrorClassDominates,
    MessageQuarantines,
    Rule,
    UnknownCodesAppear,
)
from retrykit.machines.alerts import AlertState, Finding, Severity
from retrykit.machines.signals import (
    MAX_PER_RULE,
    MAX_SEEN,
    MAX_SOURCES,
    Backlog,
    Contribution,
    Occurrence,
    Signals,
    class_key,
    exchange,
    limited,
    told,
)
from tests.monitor.streams import BEGIN, Replay


def given_by(instance="a", seq=1, **fields):
    return Contribution(instance=instance, seq=seq, **fields)


def exchanged(signals, contribution, seconds=0.0, rules=()):
    return exchange(signals, "test", contribution, rules, lease=60, now=BEGIN + timedelta(seconds=seconds))


def sent(count):
    return {"sent": count, "handled": count}


@attrs.frozen(kw_only=True)
class Own(Rule):
    """A rule of an application: more than so many were sent within five minutes."""

    name: str = "own"
    limit: int = 10

    @property
    def meaning(self):
        return "too many were sent"

    @property
    def first_steps(self):
        return ("stop",)

    def judge(self, signals, firing):
        count = signals.within(300)["sent"]
        return [Finding(key=self.name, is_met=True, title=f"{count} sent")] if count > self.limit else []


def test_contribution_that_comes_twice_counts_once():
    """Its answer was lost; the next one counts."""
    signals = None
    for seq, count in ((1, 5), (1, 5), (2, 7), (1, 5)):
        signals = exchanged(signals, given_by(seq=seq, counts=sent(count)))
    assert signals.within(300)["sent"] == 12


def test_counts_of_all_processes_are_added_and_go_when_they_are_old():
    """A window takes in its last buckets; the hours before this one are what is usual."""
    signals = None
    for number in range(3):
        signals = exchanged(signals, given_by(f"p{number}", counts={**sent(10), "dead": 1}), 29)
    signals = exchanged(signals, given_by(seq=2, counts=sent(1)), 30)
    assert [31, 1, 30] == [signals.within(300)["sent"], signals.within(30)["sent"], signals.between(30, 60)["sent"]]
    signals = exchanged(signals, given_by(seq=3), 300)
    assert signals.within(300)["sent"] == 1
    assert {} == signals.usual()
    signals = exchanged(signals, given_by(seq=4), 3600)
    assert ({}, {"handled": 31, "dead": 3}) == (signals.within(1800), signals.usual())
    signals = exchanged(signals, given_by(seq=5), 25 * 3600)
    assert ({}, {}, {}) == (signals.usual(), signals.buckets, signals.hours)


@pytest.mark.parametrize("back", [3600, 61, 86400 * 365])
def test_clock_that_is_set_back_loses_no_counts_and_counting_goes_on(back):
    """Time goes on from where it was: what is counted afterwards is old when its time is over, not sooner or later."""
    signals = exchanged(None, given_by(counts=sent(5)), 7200)
    at = signals.at
    for step in range(10):
        signals = exchanged(signals, given_by(seq=step + 2, counts=sent(1)), 7200 - back + step * 30)
        assert at + step * 30_000 == signals.at
    assert (back * 1000, 15, 6) == (signals.shift, signals.within(300)["sent"], signals.within(180)["sent"])
    signals = exchanged(signals, given_by(seq=99), 7200 - back + 600)
    assert signals.within(300)["sent"] == 0
    jumped = exchanged(signals, given_by(seq=100), 7200 + 600)
    assert (back * 1000, signals.at + back * 1000) == (jumped.shift, jumped.at)


def test_clocks_that_differ_a_little_are_no_clock_that_was_set_back():
    """Of two processes on one store; the record's time is that of the one ahead."""
    signals = None
    for step in range(20):
        skew = 59 if step % 2 else 0
        signals = exchanged(signals, given_by(f"{step % 2}", step + 1, counts=sent(1)), 1000 + step * 30 + skew)
    assert (0, 20) == (signals.shift, signals.within(1800)["sent"])


def test_clock_that_jumps_back_an_hour_fires_nothing_and_keeps_nothing_from_firing():
    """In the midst of an alert as well."""
    done = Replay()

    def feed(steps, dead):
        for _ in range(steps):
            counts = {"handled": 100, "sent": 99 - dead, "dead": dead}
            done.feed(given_by(seq=done.step + 1, counts=counts))

    feed(300, 0)
    done.now -= timedelta(hours=1)
    feed(60, 0)
    assert [] == done.told
    done.now -= timedelta(hours=1)
    feed(10, 40)
    assert ["firing"] == [state for _, state, _ in done.told]
    done.now -= timedelta(hours=1)
    feed(20, 40)
    assert ["firing"] == [state for _, state, _ in done.told]
    done.now += timedelta(hours=3)
    feed(60, 0)
    assert ["firing", "resolved"] == [state for _, state, _ in done.told]


def test_breaker_is_open_while_any_process_says_so_that_is_alive():
    """One that vanished with an open breaker does not keep it open."""
    signals = exchanged(None, given_by("a", open_breakers=("ses", "backup")))
    signals = exchanged(signals, given_by("b", open_breakers=("ses",)))
    assert {"ses": 2, "backup": 1} == signals.open_breakers()
    signals = exchanged(signals, given_by("b", 2), 200)
    assert {"ses": 1, "backup": 1} == signals.open_breakers()
    signals = exchanged(signals, given_by("b", 3), 301)
    assert {} == signals.open_breakers()
    assert list(exchanged(signals, given_by("b", 4), 3600).sources) == ["b"]


def test_record_is_bounded_whatever_is_met():
    """Classes, codes, processes, breakers and alerts without number; every count is in it."""
    signals = None
    rules = (*DEFAULT_RULES,)
    for number in range(520):
        signals = exchanged(
            signals,
            given_by(
                f"process {number}",
                counts={"failed": 40, **{class_key(f"{number} {n}" + "x" * 99): 1 for n in range(40)}},
                samples=("m" * 50,),
                occurrences=tuple(
                    Occurrence(kind="unknown_code", subject=f"{number} {n}", detail="d") for n in range(20)
                ),
                open_breakers=(f"breaker {number}",),
            ),
            number,
            rules,
        )
    assert signals.within(1800)["failed"] == 520 * 40
    assert signals.within(1800).total() == 2 * 520 * 40
    assert all(len(counts) <= 33 for counts in signals.buckets.values())
    assert (MAX_SOURCES, MAX_SEEN, 10) == (len(signals.sources), len(signals.seen), len(signals.samples))
    rules_of = Counter(watch.rule for watch in signals.watches)
    assert {"breaker-opens": MAX_PER_RULE, "unknown-code": 6, "error-class-dominates": 1} == rules_of
    assert [1, 1, 1, 1, 1, 10_395] == [each.count for each in signals.occurrences]
    assert len(json.dumps(signals.to_dict())) < 200_000


def test_classes_beyond_the_first_thirty_count_as_other():
    """And what is known goes on under its name."""
    counts = limited({}, {class_key(str(n)): 1 for n in range(30)} | {"sent": 1})
    counts = limited(counts, {class_key("new"): 2, class_key("7"): 1, "dead": 1})
    assert (32 + 1, 2, 2, 1) == (len(counts), counts["class:other"], counts["class:7"], counts["dead"])


def test_what_happened_is_told_again_only_when_it_is_new():
    """The same code of another process is known; the hour after, others stand by themselves again."""
    code = Occurrence(kind="unknown_code", subject="ses: X1", detail="unknown")
    rules = (UnknownCodesAppear(), MessageQuarantines())
    signals = exchanged(None, given_by("a", occurrences=(code,)), 0, rules)
    signals = exchanged(signals, given_by("b", occurrences=(code,)), 5, rules)
    poison = Occurrence(kind="poison", subject="m#1", detail="3 crashes")
    more = Occurrence(kind="poison", subject="", count=3)
    signals = exchanged(signals, given_by("b", 2, occurrences=(poison, more)), 6, rules)
    assert ["no rule knows the code ses: X1"] == [a.title for a in signals.alerts() if a.rule == "unknown-code"]
    assert [
        "3 more messages were taken out of circulation as poison",
        "the message of m#1 was taken out of circulation as poison",
    ] == [a.title for a in signals.alerts() if a.rule == "poison-message"]
    signals = told(signals, "test", [*signals.notices("a"), *signals.notices("b")])
    signals = exchanged(signals, given_by("a", 3, occurrences=(code,)), 3700, rules)
    assert [] == list(signals.alerts())
    assert {AlertState.RESOLVED} == {each.state for each in signals.notices("a")}
    signals = told(signals, "test", signals.notices("a"))
    assert () == signals.watches


def test_notice_is_of_one_process_until_its_lease_is_over():
    """Then of another; that something is over is told only after that it began."""
    rules = (Own(clear_after=0),)
    signals = exchanged(None, given_by("a", counts=sent(50)), 0, rules)
    signals = exchanged(signals, given_by("b"), 59, rules)
    assert (1, 0) == (len(signals.notices("a")), len(signals.notices("b")))
    signals = exchanged(signals, given_by("b", 2), 61, rules)
    assert (0, 1) == (len(signals.notices("a")), len(signals.notices("b")))
    signals = exchanged(signals, given_by("b", 3), 1000, rules)
    assert [AlertState.FIRING] == [each.state for each in signals.notices("b")]
    late = signals.notices("b")
    signals = exchanged(told(signals, "test", late), given_by("b", 4), 1001, rules)
    assert [AlertState.RESOLVED] == [each.state for each in signals.notices("b")]
    signals = exchanged(told(signals, "test", late), given_by("b", 5), 1002, rules)  # said once more, too late
    assert [AlertState.RESOLVED] == [each.state for each in signals.notices("b")]
    assert Signals(name="none") == told(None, "none", late)


def test_alert_of_a_rule_that_nobody_has_is_over_after_an_hour():
    """A deployment took it away."""
    signals = exchanged(None, given_by(counts=sent(50)), 0, (Own(), Own(name="second", hold=3600)))
    signals = told(signals, "test", signals.notices("a"))
    signals = exchanged(signals, given_by(seq=2), 3599)
    assert ["own"] == [each.key for each in signals.alerts()]
    signals = exchanged(signals, given_by(seq=3), 3601)
    assert [AlertState.RESOLVED] == [each.state for each in signals.notices("a")]


def test_condition_that_does_not_hold_long_enough_fires_nothing():
    """It has to hold all the time."""
    rules = (Own(hold=60),)
    signals = exchanged(None, given_by(counts=sent(50)), 0, rules)
    signals = exchanged(signals, given_by(seq=2), 59, rules)
    assert [] == list(signals.alerts())
    assert () == exchanged(signals, given_by(seq=3), 600, rules).watches
    (alert,) = exchanged(signals, given_by(seq=3), 60, rules).alerts()
    assert (BEGIN, BEGIN + timedelta(seconds=60)) == (alert.since, alert.changed_at)
    assert ("own", "page", "firing") == tuple(alert.to_dict()[name] for name in ("runbook", "severity", "state"))


def test_record_comes_back_from_json():
    """As it was."""
    signals = exchanged(
        None,
        given_by(
            counts=sent(50),
            samples=("m",),
            occurrences=(Occurrence(kind="poison", subject="m#1"),),
            open_breakers=("ses",),
            backlog=Backlog(waiting=1, due=1, overdue=0.5, letters=1, died_last_hour=0),
        ),
        0,
        (*DEFAULT_RULES, Own()),
    )
    assert signals == Signals.from_dict(json.loads(json.dumps(signals.to_dict())))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.integers(-7200, 7200),
            st.dictionaries(st.sampled_from(["sent", "handled", "dead", "failed", "class:x"]), st.integers(0, 10**6)),
        ),
        max_size=30,
    )
)
def test_any_clock_and_any_counts_keep_the_record_sound(steps):
    """Its time never goes back, its size is bounded, and it survives JSON."""
    signals, at = None, 0
    for seq, (instance, seconds, counts) in enumerate(steps, 1):
        signals = exchanged(signals, given_by(instance, seq, counts=counts), seconds, DEFAULT_RULES)
        assert signals.at >= at
        at = signals.at
        assert (len(signals.buckets) <= 60, len(signals.hours) <= 25) == (True, True)
        assert signals == Signals.from_dict(json.loads(json.dumps(signals.to_dict())))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DeadLettersJump(window=0), "window is 0; allowed are multiples of 30 s, 1m30s to 30m"),
        (lambda: DeadLettersJump(window="31m"), "window is '31m'; allowed are multiples"),
        (lambda: BacklogGrows(window=100), "window is 100; allowed are multiples"),
        (lambda: DeadLettersJump(hold=-1), "hold is -1; allowed are finite durations"),
        (lambda: DeadLettersJump(clear_after="soon"), "clear_after is 'soon'; allowed is text"),
        (lambda: DeadLettersJump(ratio=0.5), "ratio is 0.5; allowed are numbers >= 1"),
        (lambda: DeadLettersJump(minimum=0), "minimum is 0; allowed are whole numbers >= 1"),
        (lambda: DeadLettersJump(minimum=True), "minimum is True; allowed are whole numbers >= 1"),
        (lambda: ErrorClassDominates(share=0), "share is 0; allowed are numbers > 0 and <= 1"),
        (lambda: ErrorClassDominates(share=1.5), "share is 1.5; allowed are numbers > 0 and <= 1"),
        (lambda: ErrorClassDominates(ignore="greylisted"), "ignore is 'greylisted'; allowed is a list of names"),
        (lambda: ErrorClassDominates(ignore=5), "ignore is 5; allowed is a list of names"),
        (lambda: ErrorClassDominates(ignore=[b"x"]), "ignore holds b'x'; allowed are names, which are text"),
        (lambda: ErrorClassDominates(share="a lot"), "share is 'a lot'; allowed are numbers > 0 and <= 1"),
        (lambda: ErrorClassDominates(share=True), "share is True; allowed are numbers > 0 and <= 1"),
        (lambda: ErrorClassDominates(certainty=None), "certainty is None; allowed are numbers >= 0"),
        (lambda: ErrorClassDominates(minimum=1.5), "minimum is 1.5; allowed are whole numbers >= 1"),
        (lambda: ErrorClassDominates(minimum=10**400), "minimum is a number of more than 15 digits"),
        (lambda: DeadLettersJump(ratio="4"), "ratio is '4'; allowed are numbers >= 1"),
        (lambda: DeadLettersJump(ratio=10**400), "ratio is 1000"),
        (lambda: DeadLettersJump(drift=float("nan")), "drift is nan; allowed are numbers >= 1"),
        (
            lambda: DeadLettersJump(clear_ratio=5),
            "clear_ratio is 5, above ratio, which is 4.0: the alert would be over",
        ),
        (lambda: ErrorClassDominates(clear_share=0.3), "clear_share is 0.3, above share, which is 0.2: the alert"),
        (lambda: DeadLettersJump(severity="loud"), "severity is 'loud'; allowed are 'page' and 'ticket'"),
        (lambda: DeadLettersJump(severity=None), "severity is None; allowed are 'page' and 'ticket'"),
        (lambda: DeadLettersJump(severity=[]), "severity is []; allowed are 'page' and 'ticket'"),
        (lambda: DeadLettersJump(name=""), "name is ''; allowed are 1 to 64 letters, digits and any of '_.-'"),
        (lambda: UnknownCodesAppear(name="a b"), "name is 'a b'; allowed are 1 to 64 letters"),
        (lambda: MessageQuarantines(name=5), "name is 5; allowed are 1 to 64 letters"),
        (lambda: BreakerOpens(primary=[]), "primary is empty, so no breaker would matter; allowed are names"),
        (lambda: BreakerOpens(primary=[""]), "primary holds ''; allowed are names, which are text and not empty"),
        (lambda: BreakerOpens(primary="ses"), "primary is 'ses'; allowed is a list of names, such as ['ses']"),
    ],
)
def test_constant_that_is_not_allowed_is_named(make, message):
    """With what is."""
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_severity_is_given_as_text_or_as_itself():
    """There are two."""
    assert DeadLettersJump(severity="ticket").severity is Severity.TICKET
    assert DeadLettersJump(severity=Severity.PAGE).severity is Severity.PAGE


@pytest.mark.parametrize(
    ("rule", "cleared"),
    [
        (DeadLettersJump(), 2.0),
        (DeadLettersJump(ratio=100), 2.0),
        (DeadLettersJump(ratio=3), 1.5),
        (DeadLettersJump(ratio=1), 1.0),
        (DeadLettersJump(ratio=3, clear_ratio=3), 3),
        (ErrorClassDominates(), 0.15),
        (ErrorClassDominates(share=0.9), 0.15),
        (ErrorClassDominates(share=0.04), 0.03),
    ],
)
def test_limit_where_an_alert_is_over_follows_the_one_where_it_fires(rule, cleared):
    """Unless it is given: whoever lowers the one need not know the other."""
    found = rule.clear_ratio if isinstance(rule, DeadLettersJump) else rule.clear_share
    assert pytest.approx(cleared) == found


def test_class_that_is_ignored_and_breaker_that_is_not_primary_wake_nobody():
    """The others do."""
    rules = (ErrorClassDominates(hold=0, ignore=["greylisted"]), BreakerOpens(primary=["ses"]))
    counts = {"sent": 100, "failed": 400, class_key("greylisted"): 200, class_key("dns_failure"): 200}
    signals = exchanged(None, given_by(counts=counts, open_breakers=("backup", "ses")), 0, rules)
    assert ["breaker-opens:ses", "error-class-dominates:dns_failure"] == [each.key for each in signals.alerts()]


def test_every_rule_says_what_it_means_with_its_constants_and_what_to_type():
    """For the runbook."""
    for rule in (*DEFAULT_RULES, BreakerOpens(primary=["b", "a"])):
        assert rule.meaning.endswith(".")
        assert all(step.startswith("retrykit ") for step in rule.first_steps)
    assert "20% of at least 50" in ErrorClassDominates().meaning
    assert BreakerOpens(primary=["b", "a"]).meaning.startswith("The breaker of a or b opens")


def test_alert_about_dead_letters_keeps_to_the_share_it_fired_on():
    """An incident that lasts does not become what is usual; one whose figures are gone is judged by what is usual now."""
    done = Replay((DeadLettersJump(),))
    for step in range(1, 8 * 120):
        dead = 40 if step > 240 else 0
        done.feed(given_by(seq=step, counts={"handled": 100, "sent": 100 - dead, "dead": dead}))
    assert ["firing"] == [state for _, state, _ in done.told]
    (watch,) = done.signals.watches
    done.signals = attrs.evolve(
        done.signals, watches=(attrs.evolve(watch, alert=attrs.evolve(watch.alert, evidence={})),)
    )
    for step in range(1000, 1000 + 60):
        done.feed(given_by(seq=step, counts={"handled": 100, "sent": 100}))
    assert ["firing", "resolved"] == [state for _, state, _ in done.told]


def test_letters_and_queues_without_figures_of_a_backend_are_judged_all_the_same():
    """It could not say; a ratio of one takes any more letters than usual for too many, as far as chance lets it."""
    counts = {"handled": 100_000, "dead": 1_010, "sent": 90_000}
    signals = exchanged(None, given_by(counts=counts), 0, (DeadLettersJump(hold=0, ratio=1),))
    assert [] == list(signals.alerts())
    waiting = {signals.at // 30_000 - n: 5_000 if n < 10 else 10 for n in range(30)}
    buckets = {signals.at // 30_000 - n: {"sent": 5 if n < 10 else 500} for n in range(30)}
    signals = attrs.evolve(signals, waiting=waiting, buckets=buckets)
    (alert,) = exchanged(signals, given_by(seq=2), 0, (BacklogGrows(hold=0),)).alerts()
    assert {"waiting": 5_000, "sent": 50}.items() <= alert.evidence.items()
    assert "due" not in alert.evidence


def test_alert_about_a_backlog_ends_when_nobody_knows_how_long_it_is():
    """The monitor of a backend that is away has nothing to say of it."""
    rules = (BacklogGrows(hold=0),)
    done = Replay(rules)
    for step in range(1, 61):
        backlog = Backlog(waiting=10 if step < 40 else 5000, due=1, overdue=1, letters=0, died_last_hour=0)
        done.feed(given_by(seq=step, counts=sent(500 if step < 40 else 50), backlog=backlog))
    assert [("firing", "backlog-grows")] == [each[1:] for each in done.told]
    assert {"due": 1, "overdue_seconds": 1}.items() <= done.signals.alerts()[0].evidence.items()
    for step in range(61, 130):
        done.feed(given_by(seq=step, counts=sent(50)))
    assert ["firing", "resolved"] == [state for _, state, _ in done.told]
