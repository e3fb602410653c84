"""Broken dead letter stores: what people and runners do to letters."""

from __future__ import annotations

import attrs

from retrykit.backends.memory import _DeadLetters, _Shared
from retrykit.dead_letter import DeadLetterState
from retrykit.stores import AsyncDeadLetterStore
from retrykit.testing.conformance import DeadLetterStoreSuite
from tests.stores.mutants.breakages import gap, leaving_answers_behind, writing_later


class Mutant(DeadLetterStoreSuite):
    def make_store(self, place):
        return self.broken(_Shared(place.clock))


class Unwritten(_DeadLetters):
    def _change(self, letter_id, change):
        with self._shared.locked():
            return change(self._letters[letter_id][1]) if letter_id in self._letters else None


class TestChangeThatIsNotKept(Mutant):
    broken = Unwritten
    caught_by = (
        "test_change_moves_a_letter_from_where_the_table_allows_it",
        "test_figures_follow_a_change",
        "test_any_sequence_of_operations_gives_what_the_model_gives",
    )


class AnswersBefore(_DeadLetters):
    def _change(self, letter_id, change):
        before = self._get(letter_id)
        super()._change(letter_id, change)
        return before


class TestChangeThatAnswersWhatWasBefore(Mutant):
    broken = AnswersBefore
    caught_by = ("test_change_moves_a_letter_from_where_the_table_allows_it",)


class FromAnywhere(_DeadLetters):
    def _change(self, letter_id, change):
        def forced(letter):
            return change(attrs.evolve(letter, state=DeadLetterState.QUARANTINED))

        return super()._change(letter_id, forced)


class TestChangeFromAnyState(Mutant):
    broken = FromAnywhere
    caught_by = (
        "test_change_moves_a_letter_from_where_the_table_allows_it",
        "test_letter_that_was_put_back_is_superseded_and_then_resolved",
        "test_resolved_after_a_change_or_before_it_a_letter_is_resolved",
        "test_many_threads_putting_back_or_discarding_one_wins",
    )


class StateAlone(_DeadLetters):
    def _change(self, letter_id, change):
        def kept(letter):
            return attrs.evolve(letter, state=change(letter).state)

        return super()._change(letter_id, kept)


class TestChangeOfTheStateAlone(Mutant):
    broken = StateAlone
    caught_by = (
        "test_change_moves_a_letter_from_where_the_table_allows_it",
        "test_edit_keeps_the_original",
    )


class RecordAlone(_DeadLetters):
    def _change(self, letter_id, change):
        states = self.__dict__.setdefault("_states", {})
        before = self._get(letter_id)
        after = super()._change(letter_id, change)
        if before is not None and after is not None and before.state is not after.state:
            states.setdefault(letter_id, before.state)
        return after

    def _count(self, query):
        states = self.__dict__.get("_states", {})
        letters = dict(self._letters)
        try:
            for letter_id, state in states.items():
                number, letter = self._letters[letter_id]
                self._letters[letter_id] = number, attrs.evolve(letter, state=state)
            return super()._count(query)
        finally:
            self._letters = letters


class TestFiguresThatDoNotFollowAChange(Mutant):
    broken = RecordAlone
    caught_by = ("test_figures_follow_a_change", "test_change_interrupted_in_the_middle_is_made_or_not")


class MadeUp(_DeadLetters):
    def _change(self, letter_id, change):
        message = letter_id.rpartition("#")[0]
        for known in reversed(self._letters):
            if known.rpartition("#")[0] == message:
                return super()._change(known, change)
        return None


class TestChangeOfAnotherGeneration(Mutant):
    broken = MadeUp
    caught_by = (
        "test_change_of_an_unknown_letter_is_none",
        "test_change_moves_a_letter_from_where_the_table_allows_it",
    )


class ForgetsEarly(_DeadLetters):
    def _change(self, letter_id, change):
        self._resolved_early.pop(letter_id, None)
        return super()._change(letter_id, change)


class TestChangeThatForgetsAnEarlyResolve(Mutant):
    broken = ForgetsEarly
    caught_by = ("test_change_of_an_unknown_letter_is_none",)


class Newest(_DeadLetters):
    def _change(self, letter_id, change):
        after = super()._change(letter_id, change)
        if after is not None:
            self._letters.pop(letter_id)
            self._letters[letter_id] = next(self._numbers), after
        return after


class TestChangeThatMovesTheLetter(Mutant):
    broken = Newest
    caught_by = ("test_change_moves_a_letter_from_where_the_table_allows_it",)


class Replacing(_DeadLetters):
    def _change(self, letter_id, change):
        def replaced(letter):
            after = change(letter)
            return after if after.edit is None else attrs.evolve(after, original_payload=after.edit.payload)

        return super()._change(letter_id, replaced)


class TestEditInPlaceOfTheOriginal(Mutant):
    broken = Replacing
    caught_by = (
        "test_change_moves_a_letter_from_where_the_table_allows_it",
        "test_edit_keeps_the_original",
        "test_edit_of_a_megabyte_is_kept_byte_for_byte",
    )
    features = frozenset({"megabyte"})


class FirstEdit(_DeadLetters):
    def _change(self, letter_id, change):
        def once(letter):
            after = change(letter)
            return after if letter.edit is None else attrs.evolve(after, edit=letter.edit)

        return super()._change(letter_id, once)


class TestEditThatIsNotReplaced(Mutant):
    broken = FirstEdit
    caught_by = ("test_edit_keeps_the_original",)


class AsText(_DeadLetters):
    def _change(self, letter_id, change):
        def as_text(letter):
            after = change(letter)
            if after.edit is None:
                return after
            payload = after.edit.payload.decode("utf-8", "replace").encode()
            return attrs.evolve(after, edit=attrs.evolve(after.edit, payload=payload))

        return super()._change(letter_id, as_text)


class TestEditKeptAsText(Mutant):
    broken = AsText
    caught_by = (
        "test_edit_keeps_the_original",
        "test_change_moves_a_letter_from_where_the_table_allows_it",
    )


class CutEdit(_DeadLetters):
    def _change(self, letter_id, change):
        def cut(letter):
            after = change(letter)
            if after.edit is None:
                return attrs.evolve(after, note=after.note[:255].partition("\0")[0])
            return attrs.evolve(after, edit=attrs.evolve(after.edit, payload=after.edit.payload[:65_535]))

        return super()._change(letter_id, cut)


class TestEditCutAtALimit(Mutant):
    broken = CutEdit
    features = frozenset({"megabyte"})
    caught_by = (
        "test_edit_of_a_megabyte_is_kept_byte_for_byte",
        "test_note_that_is_not_allowed_is_refused",
        "test_hostile_text_of_a_change_comes_back_or_is_escaped",
    )


class Escaping(_DeadLetters):
    def _change(self, letter_id, change):
        def escaped(letter):
            after = change(letter)
            return attrs.evolve(after, note=after.note.encode("utf-8", "replace").decode(), edit=self._escaped(after))

        return super()._change(letter_id, escaped)

    @staticmethod
    def _escaped(letter):
        return letter.edit and attrs.evolve(letter.edit, by=letter.edit.by.encode("utf-8", "replace").decode())


class TestTextWithQuestionMarks(Mutant):
    broken = Escaping
    features = frozenset({"surrogates"})
    caught_by = (
        "test_lone_surrogates_of_a_change_come_back_as_they_were",
        "test_hostile_text_of_a_change_comes_back_or_is_escaped",
    )


class TakingBack(_DeadLetters):
    def _put(self, letter):
        kept = super()._put(letter)
        if kept.state in (DeadLetterState.REDRIVING, DeadLetterState.DISCARDED, DeadLetterState.SUPERSEDED):
            self._letters[letter.id] = self._letters[letter.id][0], letter
            return letter
        if kept.edit is not None:
            self._letters[letter.id] = self._letters[letter.id][0], attrs.evolve(kept, edit=letter.edit)
        return self._letters[letter.id][1]


class TestPutThatTakesAChangeBack(Mutant):
    broken = TakingBack
    caught_by = ("test_change_is_not_taken_back_by_a_repeated_put",)


class ResolvesQuarantined(_DeadLetters):
    def _resolve(self, letter_id):
        letter = self._get(letter_id)
        if letter is None or letter.state in (DeadLetterState.QUARANTINED, DeadLetterState.REDRIVING):
            super()._resolve(letter_id)


class TestResolveOfWhatWasGivenUpIsLost(Mutant):
    broken = ResolvesQuarantined
    caught_by = (
        "test_resolved_after_a_change_or_before_it_a_letter_is_resolved",
        "test_letter_that_was_put_back_is_superseded_and_then_resolved",
        "test_resolve_racing_with_changes_is_never_lost",
    )


class SlowChange(_DeadLetters):
    def _change(self, letter_id, change):
        letter = self._get(letter_id)
        gap()
        if letter is None:
            return None
        after = change(letter)
        with self._shared.locked():
            self._letters[letter_id] = self._letters[letter_id][0], after
        return after


class TestChangeThatReadsBeforeItWrites(Mutant):
    broken = SlowChange
    caught_by = (
        "test_many_threads_putting_back_or_discarding_one_wins",
        "test_resolve_racing_with_changes_is_never_lost",
    )


class HalfEdits(_DeadLetters):
    def _change(self, letter_id, change):
        after = super()._change(letter_id, change)
        if after is not None and after.edit is not None:
            if after.edit.by in "0246":  # some are slower than others
                gap()
            with self._shared.locked():
                number, kept = self._letters[letter_id]
                self._letters[letter_id] = number, attrs.evolve(kept, note=after.note)
        return after


class TestEditThatIsWrittenInTwoSteps(Mutant):
    broken = HalfEdits
    caught_by = ("test_many_threads_editing_one_whole_edit_stands",)


class Half(_DeadLetters):
    def _change(self, letter_id, change):
        row = self._letters.pop(letter_id, None)
        with self._shared.locked():
            if row is not None:
                self._letters[letter_id] = row
        return super()._change(letter_id, change)


class TestChangeThatDeletesBeforeItWrites(Mutant):
    broken = Half
    caught_by = ("test_change_interrupted_in_the_middle_is_made_or_not",)


class TestCancelledChangeLeavesItsAnswer(DeadLetterStoreSuite):
    caught_by = ("test_change_cancelled_is_made_or_not_and_the_next_gets_its_own_answer",)

    async def make_store(self, place):
        return leaving_answers_behind(AsyncDeadLetterStore, _DeadLetters(_Shared(place.clock)))


class TestChangeAnsweredBeforeItIsWritten(DeadLetterStoreSuite):
    features = frozenset({"reopen", "processes"})
    caught_by = (
        "test_store_opened_again_finds_what_became_of_its_letters",
        "test_many_processes_discarding_letters_each_is_discarded_by_one",
    )

    def make_store(self, place):
        backend = writing_later(place, "dead_letters", {}, [])
        original, waiting = backend.dead_letters._change, []

        def change(letter_id, made):
            letter = backend.dead_letters._get(letter_id)
            waiting.append((letter_id, made))
            if len(waiting) >= 50:
                while waiting:
                    original(*waiting.pop(0))
            return letter and made(letter)

        backend.dead_letters._change = change
        return backend
