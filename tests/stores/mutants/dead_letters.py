"""Broken dead letter stores."""

from __future__ import annotations

from fnmatch import fnmatchcase

import attrs

from retrykit.backends import MemoryBackend
from retrykit.backends.cursors import read_cursor, write_cursor
from retrykit.backends.memory import _DeadLetters, _Shared
from retrykit.dead_letter import DeadLetterState
from retrykit.errors import ConfigurationError
from retrykit.stores import AsyncDeadLetterStore, DeadLetterPage, DeadLetterQuery
from retrykit.testing.conformance import DeadLetterStoreSuite
from tests.stores.mutants.breakages import gap, leaving_answers_behind, writing_later


class Mutant(DeadLetterStoreSuite):
    def make_store(self, place):
        return self.broken(_Shared(place.clock))


class LastPutStays(_DeadLetters):
    def _put(self, letter):
        with self._shared.locked():
            number, old = self._letters.get(letter.id) or (next(self._numbers), letter)
            self._letters[letter.id] = number, attrs.evolve(letter, state=old.state)
            return self._letters[letter.id][1]


class TestPutThatReplaces(Mutant):
    broken = LastPutStays
    caught_by = (
        "test_put_twice_is_one_letter_and_the_first_one_stays",
        "test_any_sequence_of_operations_gives_what_the_model_gives",
    )


class Doubling(_DeadLetters):
    def _put(self, letter):
        if letter.id in self._letters:
            number, old = self._letters[letter.id]
            self._letters[f"{letter.id} {number}"] = number, old
            del self._letters[letter.id]
        return super()._put(letter)


class TestPutThatDoubles(Mutant):
    broken = Doubling
    caught_by = ("test_put_twice_is_one_letter_and_the_first_one_stays",)


class PutAgainIsNewest(_DeadLetters):
    def _put(self, letter):
        kept = super()._put(letter)
        self._letters.pop(letter.id)
        self._letters[letter.id] = next(self._numbers), kept
        return kept


class TestPutAgainThatMovesTheLetter(Mutant):
    broken = PutAgainIsNewest
    caught_by = ("test_put_twice_is_one_letter_and_the_first_one_stays",)


class TakingBack(_DeadLetters):
    def _put(self, letter):
        if letter.id in self._letters:
            number, old = self._letters[letter.id]
            self._letters[letter.id] = number, attrs.evolve(old, state=letter.state)
        return super()._put(letter)


class TestPutThatTakesBackIntoQuarantine(Mutant):
    broken = TakingBack
    caught_by = ("test_put_of_a_resolved_letter_does_not_take_it_back",)


class OneLetterForEachMessage(_DeadLetters):
    def _put(self, letter):
        for _, kept in self._letters.values():
            if kept.message_id == letter.message_id:
                return kept
        return super()._put(letter)


class TestOneLetterForAllGenerations(Mutant):
    broken = OneLetterForEachMessage
    caught_by = ("test_two_generations_of_a_message_are_two_letters",)


class ForgettingEarly(_DeadLetters):
    def _resolve(self, letter_id):
        if letter_id in self._letters:
            super()._resolve(letter_id)


class TestResolveBeforeTheLetterIsLost(Mutant):
    broken = ForgettingEarly
    caught_by = ("test_resolve_before_the_letter_holds_when_it_comes",)


class EarlyOfMessage(_DeadLetters):
    def _put(self, letter):
        message = letter.id.rpartition("#")[0]
        for letter_id in [each for each in self._resolved_early if each.rpartition("#")[0] == message]:
            self._resolved_early[letter.id] = self._resolved_early.pop(letter_id)
        return super()._put(letter)


class TestResolveBeforeTheLetterOfAnyGeneration(Mutant):
    broken = EarlyOfMessage
    caught_by = ("test_resolve_before_the_letter_is_for_its_generation_alone",)


class EarlyIsCounted(_DeadLetters):
    def _count(self, query):
        return super()._count(query) + len(self._resolved_early)


class TestResolveBeforeTheLetterIsCounted(Mutant):
    broken = EarlyIsCounted
    caught_by = ("test_resolve_before_the_letter_holds_when_it_comes",)


class OnlyQuarantined(_DeadLetters):
    def _resolve(self, letter_id):
        if letter_id in self._letters and self._letters[letter_id][1].state is not DeadLetterState.QUARANTINED:
            return
        super()._resolve(letter_id)


class TestResolveOfQuarantinedLettersAlone(Mutant):
    broken = OnlyQuarantined
    caught_by = ("test_resolve_marks_a_letter_of_any_state",)


class WithoutHistory(_DeadLetters):
    def _put(self, letter):
        return super()._put(attrs.evolve(letter, attempts=letter.attempts[-1:]))


class TestLetterWithoutItsHistory(Mutant):
    broken = WithoutHistory
    caught_by = ("test_letter_comes_back_as_it_was_put",)


class WithoutExtra(_DeadLetters):
    def _put(self, letter):
        return super()._put(attrs.evolve(letter, extra={}))


class TestLetterWithoutTheFieldsOfANewerVersion(Mutant):
    broken = WithoutExtra
    caught_by = ("test_letter_comes_back_as_it_was_put",)


class AsText(_DeadLetters):
    def _put(self, letter):
        body = letter.original_payload.decode("utf-8", "replace").encode()
        return super()._put(attrs.evolve(letter, original_payload=body))


class TestPayloadKeptAsText(Mutant):
    broken = AsText
    caught_by = ("test_payload_comes_back_byte_for_byte", "test_letter_comes_back_as_it_was_put")


class CutPayload(_DeadLetters):
    def _put(self, letter):
        return super()._put(attrs.evolve(letter, original_payload=letter.original_payload[:65_535]))


class TestPayloadCutAtALimit(Mutant):
    broken = CutPayload
    features = frozenset({"megabyte"})
    caught_by = ("test_payload_of_a_megabyte_is_kept_byte_for_byte",)


class SlowPut(_DeadLetters):
    def _put(self, letter):
        kept = self._get(letter.id)
        gap()
        if kept is None:
            self._letters.pop(letter.id, None)
            kept = super()._put(letter)
        return kept


class TestPutThatReadsBeforeItWrites(Mutant):
    broken = SlowPut
    caught_by = ("test_many_threads_putting_a_letter_one_is_kept",)


class SlowResolve(_DeadLetters):
    def _resolve(self, letter_id):
        if self._get(letter_id) is None:
            gap()
            with self._shared.locked() as now:
                self._resolved_early[letter_id] = now
        else:
            super()._resolve(letter_id)


class TestResolveThatLooksBeforeItWrites(Mutant):
    broken = SlowResolve
    caught_by = ("test_resolve_racing_with_its_letter_is_never_lost",)


class SlowPurge(_DeadLetters):
    def _purge(self, before, query, limit):
        with self._shared.locked():
            old = [row[1].id for row in self._matching(query) if row[1].dead_lettered_at < before][:limit]
        gap()
        with self._shared.locked():
            for letter_id in old:
                self._letters.pop(letter_id, None)
        return len(old)


class TestPurgeThatCountsBeforeItDeletes(Mutant):
    broken = SlowPurge
    caught_by = ("test_many_threads_purging_each_letter_is_counted_once",)


class ByDeath(_DeadLetters):
    def _matching(self, query):
        return sorted(super()._matching(query), key=lambda row: row[1].dead_lettered_at)


class TestSearchByDeath(Mutant):
    broken = ByDeath
    caught_by = ("test_search_gives_the_letter_put_last_first",)


class ByOffset(_DeadLetters):
    def _search(self, query, limit, cursor):
        start = 0 if cursor is None else read_cursor(cursor)
        found = [letter for _, letter in reversed(self._matching(query))]
        more = len(found) > start + limit
        return DeadLetterPage(found[start : start + limit], write_cursor(start + limit) if more else None)


class TestPagesCountedFromTheFirstLetter(Mutant):
    broken = ByOffset
    caught_by = (
        "test_search_page_by_page_gives_every_letter_once",
        "test_search_goes_on_when_letters_of_its_pages_are_gone_or_changed",
    )


class AlwaysMore(_DeadLetters):
    def _search(self, query, limit, cursor):
        page = super()._search(query, limit, cursor)
        return page if len(page.letters) < limit else attrs.evolve(page, cursor=page.cursor or write_cursor(0))


class TestFullPageThatPromisesMore(Mutant):
    broken = AlwaysMore
    caught_by = ("test_search_page_by_page_gives_every_letter_once",)


class ForgettingTheQuery(_DeadLetters):
    def _search(self, query, limit, cursor):
        return super()._search(query if cursor is None else DeadLetterQuery(), limit, cursor)


class TestPageThatForgetsTheQuery(Mutant):
    broken = ForgettingTheQuery
    caught_by = ("test_search_page_by_page_keeps_the_query",)


class TakingAnyCursor(_DeadLetters):
    def _search(self, query, limit, cursor):
        try:
            return super()._search(query, limit, cursor)
        except ConfigurationError:
            return super()._search(query, limit, None)


class TestGarbageThatBeginsAnew(Mutant):
    broken = TakingAnyCursor
    caught_by = ("test_search_with_what_is_no_cursor_is_refused",)


class MatchingBy(_DeadLetters):
    @staticmethod
    def meets(seen, wanted):
        raise NotImplementedError

    def _matching(self, query):
        wanted = query.conditions()
        rows = self._letters.values()
        return [row for row in rows if all(self.meets(getattr(row[1], name), value) for name, value in wanted.items())]


class Globbing(MatchingBy):
    @staticmethod
    def meets(seen, wanted):
        return seen is not None and fnmatchcase(str(seen), wanted)


class TestQueryTakenForAPattern(Mutant):
    broken = Globbing
    caught_by = ("test_search_gives_what_meets_every_condition_newest_first",)


class EmptyIsNone(MatchingBy):
    @staticmethod
    def meets(seen, wanted):
        return not wanted or seen == wanted


class TestEmptyConditionThatIsIgnored(Mutant):
    broken = EmptyIsNone
    caught_by = ("test_search_gives_what_meets_every_condition_newest_first",)


class Folding(MatchingBy):
    @staticmethod
    def meets(seen, wanted):
        return seen is not None and str(seen).casefold().strip() == wanted.casefold().strip()


class TestQueryThatFoldsCaseAndSpaces(Mutant):
    broken = Folding
    caught_by = (
        "test_search_gives_what_meets_every_condition_newest_first",
        "test_hostile_keys_are_kept_apart",
        "test_hostile_text_is_searched_and_counted_as_it_is",
    )


class CutAtNul(MatchingBy):
    @staticmethod
    def meets(seen, wanted):
        return seen is not None and str(seen).partition("\0")[0] == wanted.partition("\0")[0]


class TestQueryThatEndsAtNul(Mutant):
    broken = CutAtNul
    caught_by = ("test_hostile_text_is_searched_and_counted_as_it_is",)


class AnyCondition(_DeadLetters):
    def _matching(self, query):
        wanted = query.conditions()
        rows = self._letters.values()
        return [row for row in rows if not wanted or any(getattr(row[1], k) == v for k, v in wanted.items())]


class TestQueryOfWhichOneConditionHolds(Mutant):
    broken = AnyCondition
    caught_by = ("test_search_gives_what_meets_every_condition_newest_first",)


class Drifting(_DeadLetters):
    def __init__(self, shared):
        super().__init__(shared)
        self._states = {}

    def _put(self, letter):
        kept = super()._put(letter)
        self._states.setdefault(letter.id, kept.state.value)
        return kept

    def _top(self, facet, query, limit):
        if facet != "state" or query.conditions():
            return super()._top(facet, query, limit)
        states = list(self._states.values())
        return sorted(((state, states.count(state)) for state in set(states)), key=lambda row: (-row[1], row[0]))[
            :limit
        ]


class TestTotalsThatDoNotFollow(Mutant):
    broken = Drifting
    caught_by = ("test_top_and_count_follow_what_happens", "test_resolve_marks_a_letter_of_any_state")


class TopInAnyOrder(_DeadLetters):
    def _top(self, facet, query, limit):
        return super()._top(facet, query, limit)[::-1]


class TestTopOfTheRarest(Mutant):
    broken = TopInAnyOrder
    caught_by = ("test_top_counts_the_values_of_a_field_most_frequent_first",)


class TopByAlphabet(_DeadLetters):
    def _top(self, facet, query, limit):
        return sorted(super()._top(facet, query, 10_000), key=lambda row: (-row[1], row[0].lower()))[:limit]


class TestTopWithTiesInTheOrderOfALanguage(Mutant):
    broken = TopByAlphabet
    caught_by = ("test_top_orders_ties_by_value_as_code_points",)


class TopOfAll(_DeadLetters):
    def _top(self, facet, query, limit):
        return super()._top(facet, DeadLetterQuery(), limit)


class TestTopThatForgetsTheQuery(Mutant):
    broken = TopOfAll
    caught_by = ("test_top_counts_within_a_query",)


class Purging(_DeadLetters):
    def _purge(self, before, query, limit):
        with self._shared.locked():
            old = self.chosen([letter for _, letter in self._matching(query)], before)[:limit]
            for letter in old:
                del self._letters[letter.id]
            return len(old)


class PurgingTooLate(Purging):
    @staticmethod
    def chosen(letters, before):
        return sorted((each for each in letters if each.dead_lettered_at <= before), key=lambda x: x.dead_lettered_at)


class TestPurgeOfTheInstantItself(Mutant):
    broken = PurgingTooLate
    caught_by = ("test_purge_takes_what_died_before_an_instant_oldest_first",)


class PurgingByNumber(Purging):
    @staticmethod
    def chosen(letters, before):
        return [each for each in letters if each.dead_lettered_at < before]


class TestPurgeInTheOrderOfPutting(Mutant):
    broken = PurgingByNumber
    caught_by = ("test_purge_takes_what_died_before_an_instant_oldest_first",)


class PurgingAll(_DeadLetters):
    def _purge(self, before, query, limit):
        return super()._purge(before, DeadLetterQuery(), limit)


class TestPurgeThatForgetsTheQuery(Mutant):
    broken = PurgingAll
    caught_by = ("test_purge_takes_only_what_its_query_asks_for",)


class PurgingEarly(_DeadLetters):
    def _purge(self, before, query, limit):
        self._resolved_early.clear()
        return super()._purge(before, query, limit)


class TestPurgeThatForgetsWhatWasResolvedEarly(Mutant):
    broken = PurgingEarly
    caught_by = ("test_resolve_before_the_letter_is_forgotten_by_a_purge_of_what_is_resolved",)


class KeepingEarly(_DeadLetters):
    def _purge(self, before, query, limit):
        kept = dict(self._resolved_early)
        gone = super()._purge(before, query, limit)
        self._resolved_early = kept
        return gone


class TestPurgeThatKeepsWhatWasResolvedEarlyForEver(Mutant):
    broken = KeepingEarly
    caught_by = ("test_resolve_before_the_letter_is_forgotten_by_a_purge_of_what_is_resolved",)


class Remembering(_DeadLetters):
    def _purge(self, before, query, limit):
        states = {letter.id: letter.state for _, letter in self._letters.values()}
        gone = super()._purge(before, query, limit)
        for letter_id, state in states.items():
            if letter_id not in self._letters and state is DeadLetterState.RESOLVED:
                super()._resolve(letter_id)
        return gone


class TestPurgeThatLeavesTheState(Mutant):
    broken = Remembering
    caught_by = ("test_letter_put_again_after_its_purge_is_a_new_one",)


class TestPurgeOfWorkThatTakesTheLetters(DeadLetterStoreSuite):
    caught_by = ("test_purge_of_all_work_leaves_the_letters",)

    def make_store(self, place):
        backend = MemoryBackend(clock=place.clock)
        cancel = backend.retries._cancel

        def flush(message_id):
            for letter_id in list(backend.dead_letters._letters):
                del backend.dead_letters._letters[letter_id]
            return cancel(message_id)

        backend.retries._cancel = flush
        return backend


class CutId(_DeadLetters):
    def _put(self, letter):
        kept = super()._put(attrs.evolve(letter, id=letter.id[:255]))
        return attrs.evolve(kept, id=letter.id)


class TestIdThatIsCut(Mutant):
    broken = CutId
    caught_by = ("test_id_at_the_limit_is_told_from_its_neighbours", "test_hostile_keys_are_kept_apart")


class QuestionMarks(_DeadLetters):
    def _put(self, letter):
        if letter.campaign_id is not None:
            letter = attrs.evolve(letter, campaign_id=letter.campaign_id.encode("utf-8", "replace").decode())
        return super()._put(letter)


class TestSurrogatesThatBecomeQuestionMarks(Mutant):
    broken = QuestionMarks
    features = frozenset({"surrogates"})
    caught_by = ("test_lone_surrogates_wedge_no_message", "test_lone_surrogates_come_back_as_they_were")


class Refusing(_DeadLetters):
    def _put(self, letter):
        letter.to_json().encode()
        (letter.provider or "").encode("utf-8")
        return super()._put(letter)


class TestSurrogatesThatWedgeTheirMessage(Mutant):
    broken = Refusing
    caught_by = ("test_lone_surrogates_wedge_no_message",)


class Cutting(_DeadLetters):
    def _put(self, letter):
        return super()._put(attrs.evolve(letter, error_message=letter.error_message.partition("\0")[0]))


class TestTextThatIsCutAtNul(Mutant):
    broken = Cutting
    caught_by = ("test_hostile_text_in_values_comes_back_or_is_escaped",)


class Half(_DeadLetters):
    def _resolve(self, letter_id):
        row = self._letters.pop(letter_id, None)
        with self._shared.locked():
            if row is not None:
                self._letters[letter_id] = row
        super()._resolve(letter_id)

    def _put(self, letter):
        self._letters.setdefault(letter.id, (next(self._numbers), attrs.evolve(letter, error_message="half")))
        with self._shared.locked():
            number, kept = self._letters[letter.id]
            if kept.error_message == "half":
                self._letters[letter.id] = number, letter
        return super()._put(letter)

    def _purge(self, before, query, limit):
        return super()._purge(before, query, 1) + super()._purge(before, query, limit - 1)


class TestOperationsInTwoSteps(Mutant):
    broken = Half
    caught_by = (
        "test_put_interrupted_in_the_middle_is_there_or_not",
        "test_resolve_interrupted_in_the_middle_is_done_or_not",
        "test_purge_interrupted_in_the_middle_is_done_or_not",
    )


class TestStoreOfOneProcess(Mutant):
    broken = _DeadLetters
    features = frozenset({"fork", "reopen"})
    caught_by = (
        "test_store_used_before_a_fork_works_in_the_child_and_in_the_parent",
        "test_store_opened_again_finds_its_letters",
    )


class TestCancelledOperationLeavesItsAnswer(DeadLetterStoreSuite):
    caught_by = ("test_operation_cancelled_is_done_or_not_and_the_next_gets_its_own_answer",)

    async def make_store(self, place):
        return leaving_answers_behind(AsyncDeadLetterStore, _DeadLetters(_Shared(place.clock)))


class TestPutAnsweredBeforeItIsWritten(DeadLetterStoreSuite):
    features = frozenset({"reopen", "processes"})
    caught_by = ("test_letters_of_killed_processes_are_there", "test_store_opened_again_finds_its_letters")

    def make_store(self, place):
        writes = {"_put": lambda letter: letter, "_resolve": lambda _: None}
        return writing_later(place, "dead_letters", writes, ["_get", "_search", "_count", "_top", "_purge"])
