"""Hostile keys and values in a redrive store."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ...machines.redrive import Watched
from ...stores.redrives import AuditEntry, RedriveJob, RedriveState, RedriveStore
from ..strategies import any_text, instants, keys
from .hostile import KEYS, TEXTS, escaped
from .models import examples
from .redrives_samples import entry, job, stopping
from .suite import Fresh, StoreSuite, needs

__all__ = ["RedriveValues"]


def _with_text(job_id: str, text: str) -> RedriveJob:
    """Return a redrive that holds a text wherever one may stand."""
    return job(
        job_id,
        text,
        query=text,
        root_cause=text,
        by=text,
        note=text,
        cursor=text,
        taken=(text, text),
        watched=(Watched(text, text, 1, text),),
        history=(_entry_with(text),),
        state=RedriveState.DONE,
    )


def _entry_with(text: str) -> AuditEntry:
    return entry(text, by=text, subject=text, why=text, result=text)


class RedriveValues(StoreSuite[RedriveStore]):
    """Whatever a person types."""

    def test_hostile_ids_are_kept_apart(self, store: RedriveStore) -> None:
        """Each is a redrive of its own, in the order of code points, and changed alone."""
        ids = sorted(KEYS)
        for job_id in reversed(ids):
            store.start(job(job_id, job_id))
        assert ids == [known.id for known in store.jobs(limit=100)]
        for number, job_id in enumerate(ids, 1):
            stopped = store.change(job_id, stopping())
            assert stopped == store.get(job_id)
            assert stopped is not None
            assert (job_id, RedriveState.STOPPED) == (stopped.id, stopped.state)
            assert ids[number:] == [known.id for known in store.jobs(active=True, limit=100)]

    def test_hostile_owners_are_told_apart(self, store: RedriveStore) -> None:
        """One holds it, and is told so again."""
        for number, owner in enumerate((*TEXTS, "who \ud800")):
            job_id = f"r-{number}"
            store.start(job(job_id, job_id))
            held = store.hold(job_id, owner=owner, lease=30)
            assert held is not None
            assert held.lease is not None
            assert escaped(owner) == escaped(held.lease.owner)
            assert held == store.hold(job_id, owner=owner, lease=30) == store.hold(job_id, owner=f"{owner}.", lease=30)

    def test_hostile_text_comes_back_or_is_escaped(self, store: RedriveStore) -> None:
        """In every field of a redrive and of an entry; it is never cut."""
        for number, text in enumerate((*TEXTS, "why \ud800")):
            expected = _with_text(f"{number}", text)
            for known in (store.start(expected), store.get(f"{number}")):
                assert escaped(expected) == escaped(known)
                assert "\0" in text or "\ud800" in text or expected == known
        assert escaped(sorted(map(_entry_with, (*TEXTS, "why \ud800")), key=lambda each: each.position)) == escaped(
            list(store.audit())
        )

    @needs("surrogates")
    def test_lone_surrogates_come_back_as_they_were(self, store: RedriveStore) -> None:
        """Not as escapes."""
        for number, text in enumerate(("\ud800", r"\ud800", "a\udfff")):
            expected = _with_text(f"{number}", text)
            assert expected == store.start(expected) == store.get(f"{number}")
            assert expected.history[0] in store.audit()

    def test_any_redrive_and_entry_come_back(self, fresh: Fresh[RedriveStore]) -> None:
        """With escapes for what a store has no form for."""
        entries = st.builds(
            AuditEntry, at=instants, by=any_text, action=any_text, subject=any_text, why=any_text, result=any_text
        )

        @examples(at_most=10)
        @given(job_id=keys, text=any_text, created=instants, noted=st.lists(entries, max_size=4))
        def check(job_id: str, text: str, created: object, noted: list[AuditEntry]) -> None:
            with fresh() as (store, _):
                expected = job(job_id, text, root_cause=text, created_at=created, history=tuple(noted[:2]))
                assert escaped(expected) == escaped(store.start(expected)) == escaped(store.get(job_id))
                for each in noted[2:]:
                    store.note(each)
                log = sorted({each.key: each for each in noted}.values(), key=lambda each: each.position)
                assert escaped(log) == escaped(list(store.audit()))
                assert escaped(log[1:]) == escaped(list(store.audit(after=log[0]))) if log else True

        check()

    @needs("megabyte")
    def test_redrive_of_a_megabyte_is_kept(self, store: RedriveStore) -> None:
        """Many letters are reserved, and somebody pasted a log."""
        expected = job(
            taken=tuple(f"{'m' * 250}-{number}#1" for number in range(3000)), root_cause="{\u20ac}" * 100_000
        )
        assert expected == store.start(expected) == store.get("r-1")
        noted = entry(why="{\u20ac}" * 100_000)
        store.note(noted)
        assert noted in store.audit()
