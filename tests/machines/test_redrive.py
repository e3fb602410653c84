"""How a redrive goes: the canary, the slices after it, what stops it, and who may act."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from retrykit.codec import decode, encode
from retrykit.errors import ConfigurationError
from retrykit.lease import Lease
from retrykit.machines import redrive as machine
from retrykit.machines.redrive import AuditEntry, RedriveJob, RedriveState, Watched
from retrykit.testing.strategies import any_text, instants

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING, PAUSED, STOPPED, DONE = RedriveState


def at(seconds):
    return NOW + timedelta(seconds=seconds)


def fresh(**fields) -> RedriveJob:
    """Return a redrive with a canary of three that nobody holds yet."""
    usual = {"id": "r-1", "query": "q", "root_cause": "a bug", "by": "ada", "created_at": NOW, "planned": 100}
    return RedriveJob(**usual | {"canary": 3, "slice_at": NOW} | fields)


def held(**fields) -> RedriveJob:
    """Return a redrive that a runner holds under the token 1."""
    return machine.hold(fresh(**fields), "runner", 60, NOW)


def watched(number, **fields) -> Watched:
    return Watched(f"m-{number}#1", f"m-{number}", 1, "greylisted", **fields)


def moved(job, count, *, first=0, last=False, now=NOW) -> RedriveJob:
    """Return the redrive after so many letters were reserved and put back."""
    token = job.lease.token
    numbers = range(first, first + count)
    job = machine.reserve(job, token, [f"m-{each}#1" for each in numbers], None if last else "c", now)
    return machine.put_back(job, token, [("put_back", watched(each)) for each in numbers], now)


def ended(job, *, sent=(), failed=(), lost=(), now=NOW) -> RedriveJob:
    """Return the redrive after messages of these numbers came to their end."""
    groups = (("succeeded", sent), ("failed", failed), ("lost", lost))
    endings = {f"m-{each}#1": ending for ending, numbers in groups for each in numbers}
    return machine.observe(job, job.lease.token, endings, now)


def ramping(**fields) -> RedriveJob:
    """Return a redrive whose canary of three has passed."""
    return ended(moved(held(**fields), 3), sent=range(3))


# Who may act


def test_hold_of_a_running_redrive_is_granted_under_a_new_token():
    """Whoever held it before is fenced off."""
    job = held()
    assert (Lease("runner", 1, at(60)), 1) == (job.lease, job.seq)
    assert machine.holds(job, 1) is True
    assert machine.holds(job, 0) is False


@pytest.mark.parametrize(("seconds", "granted"), [(0, False), (59.999, False), (60, True), (1000, True)])
def test_hold_by_another_is_granted_when_the_lease_has_ended(seconds, granted):
    """Not a millisecond early."""
    job = held()
    after = machine.hold(job, "other", 60, at(seconds))
    if granted:
        assert Lease("other", 2, at(seconds + 60)) == after.lease
        assert (False, True) == (machine.holds(after, 1), machine.holds(after, 2))
    else:
        assert after is job


def test_hold_by_its_holder_goes_on_under_the_same_token():
    """Until its lease has ended: then it is as if it were another."""
    job = machine.hold(held(), "runner", 60, at(59.999))
    assert Lease("runner", 1, at(119.999)) == job.lease
    assert machine.hold(job, "runner", 60, at(119.999)).lease.token == 2


@pytest.mark.parametrize("state", [PAUSED, STOPPED, DONE])
def test_hold_of_a_redrive_that_does_not_run_changes_nothing(state):
    """There is nothing to do."""
    job = fresh(state=state)
    assert machine.hold(job, "runner", 60, NOW) is job
    assert machine.holds(job, 0) is False
    assert machine.allowance(job, NOW) == 0


def test_release_lets_another_hold_it_at_once_and_only_its_holder_can():
    """The next one has a token of its own."""
    job = held()
    assert machine.release(job, "other") is job
    assert machine.release(fresh(), "runner") == fresh()
    left = machine.release(job, "runner")
    assert left.lease is None
    after = machine.hold(left, "other", 60, NOW)
    assert ("other", True) == (after.lease.owner, after.lease.token > job.lease.token)
    assert machine.holds(after, job.lease.token) is False


STALE = {
    "reserve": lambda job, token: machine.reserve(job, token, ["x#1"], None, NOW),
    "postpone": lambda job, token: machine.postpone(job, token, "waits", at(30), NOW),
    "put_back": lambda job, token: machine.put_back(job, token, [("passed_over", None)], NOW),
    "observe": lambda job, token: machine.observe(job, token, {"m-0#1": "failed"}, NOW),
}


@pytest.mark.parametrize("operation", STALE)
def test_token_that_does_not_hold_changes_nothing(operation):
    """An earlier holder's, a made-up one, and the holder's own once the redrive was paused or stopped."""
    call = STALE[operation]
    job = attrs.evolve(moved(held(), 1), taken=("m-9#1",))
    for token in (0, 2, -1):
        assert call(job, token) is job
    for change in (machine.pause, machine.stop):
        resting = change(job, "ada", "lunch", NOW)
        assert call(resting, 1) is resting
        assert call(resting, resting.seq) is resting
    taken_over = machine.hold(job, "other", 60, at(60))
    assert call(taken_over, 1) is taken_over


# How many letters move when


def test_allowance_before_the_canary_passed_is_what_is_left_of_it():
    """Letters that were passed over are made up for."""
    job = held()
    assert machine.allowance(job, NOW) == 3
    job = machine.reserve(job, 1, ["a#1", "b#1", "c#1"], "c", NOW)
    assert (0, ("a#1", "b#1", "c#1")) == (machine.allowance(job, NOW), machine.due(job))
    job = machine.put_back(job, 1, [("put_back", watched(0)), ("passed_over", None), ("already_sent", None)], NOW)
    assert (1, 1, 1, ()) == (job.put_back, job.passed_over, job.already_sent, job.taken)
    assert machine.allowance(job, NOW) == 2
    assert machine.allowance(moved(job, 2, first=5), NOW) == 0


def test_allowance_after_the_canary_doubles_as_slices_come_to_an_end():
    """Each slice waits until at least half of the one before has."""
    job, first = ramping(), 10
    for size in (6, 12, 24):
        assert size == machine.allowance(job, NOW)
        job = moved(job, size, first=first)
        assert machine.allowance(job, NOW) == 0
        job = ended(job, sent=range(first, first + size // 2 - 1))
        assert machine.allowance(job, NOW) == 0
        job = ended(job, sent=[first + size - 1])
        assert machine.allowance(job, NOW) == size * 2
        job = ended(job, sent=range(first, first + size))
        first += 100
    assert machine.allowance(attrs.evolve(job, size=10_000), NOW) == machine.SLICE


@pytest.mark.parametrize(("rate", "size"), [(0.01, 1), (0.25, 2), (0.5, 5), (100, 6)])
def test_allowance_is_no_more_than_the_rate_takes_in_ten_seconds(rate, size):
    """And at least one."""
    job = attrs.evolve(ramping(), rate=rate)
    assert size == machine.allowance(job, NOW)


def test_reserve_with_a_rate_waits_as_long_as_the_slice_takes():
    """Nothing is reserved before; without letters there is nothing to wait for."""
    job = held(rate=0.5)
    job = moved(job, 1)
    assert at(2) == job.next_at
    assert (0, 2) == (machine.allowance(job, at(1.999)), machine.allowance(job, at(2)))
    assert machine.reserve(held(rate=0.5), 1, [], "c", NOW).next_at is None
    assert machine.reserve(held(), 1, ["a#1"], "c", NOW).next_at is None


def test_reserve_while_letters_are_reserved_changes_nothing():
    """They are put back first."""
    job = machine.reserve(held(), 1, ["a#1"], "c", NOW)
    assert machine.reserve(job, 1, ["b#1"], "d", NOW) is job


def test_reserve_of_the_last_letters_leaves_nothing_to_reserve():
    """There is no cursor to go on from."""
    job = machine.reserve(held(), 1, [], None, NOW)
    assert (True, 0, 0) == (job.is_exhausted, machine.allowance(job, NOW), job.size)


def test_put_back_without_letters_reserved_changes_nothing():
    """The first answer was lost, and it was counted."""
    job = moved(held(), 2)
    for results in ([("put_back", watched(7))], []):
        assert machine.put_back(job, 1, results, at(5)) is job


def test_postpone_holds_back_the_next_slice_until_then():
    """It says why, until letters are reserved."""
    job = machine.postpone(held(), 1, "waits: tenant:acme is paused", at(30), at(1))
    assert ("waits: tenant:acme is paused", at(1)) == (job.note, job.slice_at)
    assert (0, 3) == (machine.allowance(job, at(29.999)), machine.allowance(job, at(30)))
    assert machine.reserve(job, 1, ["a#1"], "c", at(30)).note == ""


# How it is judged


@pytest.mark.parametrize(
    ("sent", "failed", "tolerance", "state", "passed"),
    [
        (3, 0, 0.1, RUNNING, True),
        (2, 0, 0.1, RUNNING, False),
        (2, 1, 0.1, STOPPED, False),
        (0, 1, 0.1, STOPPED, False),
        (2, 1, 0.34, RUNNING, True),
        (1, 1, 0.34, RUNNING, False),
        (1, 2, 0.34, STOPPED, False),
    ],
)
def test_canary_is_judged_by_what_became_of_it(sent, failed, tolerance, state, passed):
    """It passes when all have come to an end, and stops the redrive as soon as too many failed."""
    job = moved(held(tolerance=tolerance), 3)
    job = machine.observe(
        job, 1, {f"m-{each}#1": "succeeded" if each < sent else "failed" for each in range(sent + failed)}, at(9)
    )
    assert (state, passed) == (job.state, job.canary_passed)
    assert (sent, failed, 3 - sent - failed) == (job.succeeded, job.failed, job.pending)
    if state is STOPPED:
        note = f"the canary failed: {failed} of 3 messages failed again"
        assert (note, at(9), None) == (job.note, job.finished_at, job.lease)
    if passed:
        result = f"{sent} sent, {failed} failed again"
        assert (
            AuditEntry(at=at(9), by="retrykit", action="canary passed", subject="r-1", result=result) == job.history[-1]
        )


def test_canary_of_which_nothing_is_known_any_more_passes_without_a_word():
    """Lost messages say neither yes nor no."""
    job = ended(moved(held(), 3), lost=range(3))
    assert (True, RUNNING, (), 0, 0) == (job.canary_passed, job.state, job.history, job.succeeded, job.failed)


def test_canary_that_does_not_come_to_an_end_pauses_the_redrive():
    """Most likely no worker runs; resumed, it waits as long again."""
    job = ended(moved(held(), 3), sent=[0])
    assert ended(job, now=at(899.999)).state is RUNNING
    paused = ended(job, now=at(900))
    assert PAUSED is paused.state
    assert paused.note == "2 messages of the canary have not come to an end within 15m; does a worker run?"
    resumed = machine.hold(machine.resume(paused, "ada", "it does now", at(1000)), "runner", 60, at(1000))
    assert (RUNNING, 0) == (ended(resumed, now=at(1899)).state, machine.allowance(resumed, at(1000)))
    assert ended(resumed, now=at(1900)).state is PAUSED


def test_redrive_of_fewer_letters_than_the_canary_is_done_with_them():
    """There is nothing after the canary."""
    job = moved(held(), 2, last=True)
    assert ended(job, sent=[0]).state is RUNNING
    done = ended(job, sent=[0, 1], now=at(5))
    assert (DONE, at(5), None) == (done.state, done.finished_at, done.lease)
    assert done.note == "2 put back, 2 sent, 0 failed again"
    assert ["canary passed", "redrive done"] == [entry.action for entry in done.history]


def test_redrive_of_no_letters_is_done_at_once():
    """Whoever asks first finds that out."""
    done = ended(moved(held(), 0, last=True))
    assert (DONE, "0 put back, 0 sent, 0 failed again") == (done.state, done.note)


def test_redrive_does_not_end_while_letters_are_reserved():
    """They are still to be put back."""
    job = machine.reserve(ramping(), 1, ["m-9#1"], None, NOW)
    assert ended(job, now=at(10_000)).state is RUNNING
    job = machine.reserve(held(), 1, ["m-9#1"], None, NOW)
    assert (RUNNING, False) == (ended(job).state, ended(job).canary_passed)


def test_redrive_ends_when_its_last_slice_takes_too_long():
    """And says how many are on their way."""
    job = moved(ramping(), 2, first=10, last=True)
    assert ended(job, now=at(899.999)).state is RUNNING
    done = ended(job, sent=[10], now=at(900))
    assert (DONE, "5 put back, 4 sent, 0 failed again, 1 have not come to an end yet") == (done.state, done.note)


@pytest.mark.parametrize(
    ("sent", "failed", "state"), [(0, 19, RUNNING), (18, 2, RUNNING), (17, 3, STOPPED), (0, 20, STOPPED)]
)
def test_redrive_stops_when_too_many_of_the_latest_fail(sent, failed, state):
    """Once there are enough to tell; the canary does not count among them."""
    job = moved(ramping(), 40, first=10)
    job = ended(job, sent=range(10, 10 + sent), failed=range(10 + sent, 10 + sent + failed))
    assert state is job.state
    if state is STOPPED:
        assert f"{failed} of the last {sent + failed} messages failed again" == job.note


def test_redrive_that_went_well_for_long_stops_by_the_latest_hundred():
    """What went well before does not hide what fails now."""
    job = ended(moved(ramping(), 300, first=10), sent=range(10, 310))
    job = moved(job, 11, first=400)
    assert ended(job, failed=range(400, 410)).state is RUNNING
    assert ended(job, failed=range(400, 411)).note == "11 of the last 100 messages failed again"


# What a person does


def test_pause_lets_the_runner_go_and_resume_goes_on_where_it_was():
    """The canary that had passed has passed."""
    job = machine.pause(moved(ramping(), 6, first=10), "ada", "lunch", at(1))
    assert (PAUSED, "lunch", None, True) == (job.state, job.note, job.lease, job.is_active)
    assert machine.holds(job, 1) is False
    resumed = machine.resume(job, "bob", "fed", at(2))
    assert (RUNNING, "", True, 6, at(2)) == (
        resumed.state,
        resumed.note,
        resumed.canary_passed,
        resumed.pending,
        resumed.slice_at,
    )
    assert [("ada", "redrive paused", "lunch"), ("bob", "redrive resumed", "fed")] == [
        (entry.by, entry.action, entry.why) for entry in resumed.history[1:]
    ]


def test_resume_after_a_stop_begins_with_a_new_canary():
    """What became of the messages from before says nothing about it."""
    job = machine.stop(moved(ramping(), 6, first=10), "ada", "wrong fix", at(1))
    assert (STOPPED, "wrong fix", at(1), False) == (job.state, job.note, job.finished_at, job.is_active)
    resumed = machine.hold(machine.resume(job, "ada", "right fix", at(2)), "runner", 60, at(2))
    assert (False, 0, None, 3) == (
        resumed.canary_passed,
        resumed.tried,
        resumed.finished_at,
        machine.allowance(resumed, at(2)),
    )
    resumed = ended(resumed, failed=range(10, 15))
    assert (RUNNING, False, 5, "") == (resumed.state, resumed.canary_passed, resumed.failed, resumed.recent)
    resumed = ended(moved(resumed, 3, first=20), sent=range(20, 23))
    assert (True, 1, 9 + 3) == (resumed.canary_passed, resumed.pending, resumed.put_back)
    assert machine.resume(attrs.evolve(job, canary=0), "ada", "sure", at(2)).canary_passed is True


def test_resume_after_a_stop_in_a_slice_puts_no_more_than_the_canary_back():
    """What had been reserved waits until the canary has passed, then it goes first."""
    job = machine.reserve(ramping(), 1, [f"m-{each}#1" for each in range(10, 18)], None, NOW)
    job = machine.resume(machine.stop(job, "ada", "wrong fix", at(1)), "ada", "right fix", at(2))
    job = machine.hold(job, "runner", 60, at(2))
    token = job.lease.token
    assert ("m-10#1", "m-11#1", "m-12#1") == machine.due(job)
    job = machine.put_back(job, token, [("passed_over", None), *(("put_back", watched(n)) for n in (11, 12))], at(2))
    assert (("m-13#1",), 0) == (machine.due(job), machine.allowance(job, at(2)))
    assert ended(job, sent=[11, 12]).canary_passed is False
    job = machine.put_back(job, token, [("put_back", watched(13))], at(2))
    assert () == machine.due(job)
    paused = ended(job, now=at(902))
    assert (PAUSED, "3 messages of the canary") == (paused.state, paused.note[:24])
    job = ended(job, sent=range(11, 14))
    assert (True, RUNNING, 4) == (job.canary_passed, job.state, len(machine.due(job)))


@pytest.mark.parametrize("state", RedriveState)
@pytest.mark.parametrize(
    ("change", "allowed"),
    [(machine.pause, {RUNNING}), (machine.resume, {PAUSED, STOPPED}), (machine.stop, {RUNNING, PAUSED})],
)
def test_change_of_a_person_is_made_where_it_makes_sense(change, allowed, state):
    """Everywhere else the redrive stays as it is; so does one to which it was made before."""
    job = fresh(state=state)
    after = change(job, "ada", "why", NOW)
    assert (after is not job) is (state in allowed)
    assert change(after, "ada", "why", NOW) is after
    if after is not job:
        assert after.seq >= job.seq
        assert [entry.why for entry in machine.gained(job, after)] == ["why"]


def test_gained_is_what_a_change_adds_to_the_history():
    """All of it, where there was no redrive before."""
    job = fresh()
    paused = machine.pause(job, "ada", "lunch", NOW)
    assert paused.history == machine.gained(None, paused) == machine.gained(job, paused)
    assert (machine.gained(paused, paused), machine.gained(None, job)) == ((), ())


@pytest.mark.parametrize(
    ("before", "after", "becomes"),
    [
        (None, RUNNING, True),
        (None, DONE, False),
        (STOPPED, RUNNING, True),
        (PAUSED, RUNNING, False),
        (RUNNING, PAUSED, False),
        (RUNNING, STOPPED, False),
    ],
)
def test_change_makes_active_what_was_not(before, after, becomes):
    """Only then a store looks for others."""
    job = None if before is None else fresh(state=before)
    assert becomes is machine.becomes_active(job, fresh(state=after))


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [("a", "a", True), ("a", "b", False), ("a", None, True), (None, "a", True), (None, None, True)],
)
def test_redrives_conflict_unless_they_are_of_different_groups(one, other, conflict):
    """None with itself."""
    job = fresh(group=one)
    assert conflict is job.conflicts_with(fresh(id="r-2", group=other))
    assert job.conflicts_with(fresh(group=other)) is False


# What is stored

texts = any_text
entries = st.builds(AuditEntry, at=instants, by=texts, action=texts, subject=texts, why=texts, result=texts)
counts = st.integers(0, 10**9)
jobs = st.builds(
    RedriveJob,
    id=texts,
    query=texts,
    group=st.none() | texts,
    root_cause=texts,
    by=texts,
    created_at=instants,
    planned=counts,
    canary=counts,
    rate=st.none() | st.floats(0.001, 1000),
    tolerance=st.floats(0, 0.999),
    patience=st.floats(0, 1e6),
    max_redrives=counts,
    not_sent=st.booleans(),
    state=st.sampled_from(RedriveState),
    note=texts,
    cursor=st.none() | texts,
    is_exhausted=st.booleans(),
    canary_passed=st.booleans(),
    size=counts,
    taken=st.lists(texts, max_size=3).map(tuple),
    watched=st.lists(st.builds(Watched, texts, texts, counts, texts, st.booleans()), max_size=3).map(tuple),
    put_back=counts,
    already_sent=counts,
    passed_over=counts,
    succeeded=counts,
    failed=counts,
    recent=st.text("sf", max_size=5),
    tried_from=counts,
    next_at=st.none() | instants,
    slice_at=st.none() | instants,
    lease=st.none() | st.builds(Lease, texts, counts, instants),
    seq=counts,
    finished_at=st.none() | instants,
    history=st.lists(entries, max_size=2).map(tuple),
)


@given(jobs)
def test_redrive_survives_a_round_trip(job):
    """Through JSON, equal in every field."""
    assert job == RedriveJob.from_dict(decode(encode(job.to_dict())))


@given(entries)
def test_audit_entry_survives_a_round_trip(entry):
    """And its key is the same afterwards."""
    again = AuditEntry.from_dict(decode(encode(entry.to_dict())))
    assert (entry, entry.key, entry.position) == (again, again.key, again.position)


def test_redrive_written_has_these_fields():
    """Instants are whole milliseconds since the epoch."""
    fields = moved(held(), 1).to_dict()
    assert (1767225600000, ["runner", 1, 1767225660000], "running") == (
        fields["created_at"],
        fields["lease"],
        fields["state"],
    )
    assert [["m-0#1", "m-0", 1, "greylisted", False]] == fields["watched"]
    assert set(fields) == {field.name for field in attrs.fields(RedriveJob)}


def test_redrives_and_entries_stand_the_latest_first():
    """What is equal in time by its id or its text."""
    jobs_ = [fresh(id="b"), fresh(id="a"), fresh(id="c", created_at=at(1))]
    assert ["c", "a", "b"] == [job.id for job in sorted(jobs_, key=lambda job: job.position)]
    noted = [AuditEntry(at=at(each), by="ada", action=f"{each}", subject="x") for each in (0, 2, 1)]
    assert ["2", "1", "0"] == [entry.action for entry in sorted(noted, key=lambda entry: entry.position)]


def test_naive_instant_of_a_redrive_is_refused():
    """It could mean any zone."""
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - on purpose
    for call in (
        lambda: fresh(created_at=naive),
        lambda: AuditEntry(at=naive, by="ada", action="edited", subject="m#1"),
    ):
        with pytest.raises(ConfigurationError, match=r"is the naive datetime"):
            call()


# Any course


class Courses(RuleBasedStateMachine):
    """A redrive, its runners, its messages and its people, in any order."""

    def __init__(self):
        super().__init__()
        self.now = NOW
        self.job = fresh(canary=3, tolerance=0.3)
        self.number = 0
        self.lost = 0
        self.reserved_since = 0

    def act(self, job):
        """Take a change over; one under a token that does not hold has to change nothing."""
        assert job.put_back >= self.job.put_back
        self.job = job

    @rule(owner=st.sampled_from(["one", "two"]))
    def hold(self, owner):
        self.act(machine.hold(self.job, owner, 10, self.now))

    @rule(count=st.integers(0, 600), last=st.booleans(), stale=st.booleans())
    def reserve(self, count, last, stale):
        """No more than is allowed."""
        token = self.job.seq - stale
        count = min(count, machine.allowance(self.job, self.now))
        ids = [f"m-{self.number + each}#1" for each in range(count)]
        job = machine.reserve(self.job, token, ids, None if last else "c", self.now)
        if not machine.holds(self.job, token):
            assert job is self.job
        elif job is not self.job:
            self.number += count
        self.act(job)

    @precondition(lambda self: self.job.taken)
    @rule(data=st.data(), stale=st.booleans())
    def put_back(self, data, stale):
        """Most of them, and always those that are due."""
        results = []
        for letter_id in machine.due(self.job):
            result = data.draw(st.sampled_from(["put_back"] * 4 + ["already_sent", "passed_over"]))
            seen = Watched(letter_id, letter_id[:-2], 1, "greylisted") if result == "put_back" else None
            results.append((result, seen))
        before, token = self.job, self.job.seq - stale
        job = machine.put_back(self.job, token, results, self.now)
        assert job is before or machine.holds(before, token)
        self.act(job)

    @precondition(lambda self: self.job.watched)
    @rule(data=st.data(), count=st.integers(1, 9), stale=st.booleans())
    def observe(self, data, count, stale):
        """Some have come to an end."""
        chosen = self.job.watched[:count]
        endings = {
            each.letter_id: data.draw(st.sampled_from(["succeeded", "succeeded", "failed", "lost"])) for each in chosen
        }
        before, token = self.job, self.job.seq - stale
        job = machine.observe(self.job, token, endings, self.now)
        if job is not before:
            assert machine.holds(before, token)
            self.lost += sum(ending == "lost" for ending in endings.values())
        self.act(job)

    @rule(change=st.sampled_from([machine.pause, machine.resume, machine.stop]))
    def person(self, change):
        """Somebody steps in."""
        before = self.job
        self.act(change(self.job, "ada", "why", self.now))
        if change is machine.resume and before.state is STOPPED:
            assert (False, 0) == (self.job.canary_passed, self.job.tried)

    @rule(seconds=st.sampled_from([1, 10, 900]))
    def time_passes(self, seconds):
        self.now += timedelta(seconds=seconds)

    @invariant()
    def no_more_than_the_canary_moves_before_it_has_passed(self):
        if not self.job.canary_passed:
            assert self.job.tried + len(machine.due(self.job)) <= self.job.canary

    @invariant()
    def counts_add_up(self):
        """Every letter that was reserved is in one of the counts."""
        job = self.job
        assert job.put_back == job.succeeded + job.failed + job.pending + self.lost
        assert self.number == job.put_back + job.already_sent + job.passed_over + len(job.taken)

    @invariant()
    def only_what_runs_is_held(self):
        assert self.job.lease is None or self.job.state is RUNNING
        assert (self.job.finished_at is not None) is (self.job.state in (STOPPED, DONE))


TestCourses = Courses.TestCase
