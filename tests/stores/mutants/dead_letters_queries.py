"""Broken dead letter stores: windows, attributes, text, groups, notes and figures."""

from __future__ import annotations

from datetime import timedelta

import attrs

from retrykit.backends.memory import _DeadLetters, _Shared
from retrykit.dead_letter import DeadLetterState
from retrykit.errors import ConfigurationError
from retrykit.stores import DeadLetterGroup, DeadLetterQuery, DeadLetterStats, GroupNote
from retrykit.stores.dead_letter_figures import stats_of
from retrykit.testing.conformance import DeadLetterStoreSuite
from tests.stores.mutants.breakages import gap


class Mutant(DeadLetterStoreSuite):
    def make_store(self, place):
        return self.broken(_Shared(place.clock))


class Meeting(_DeadLetters):
    """Goes by another query than the one given."""

    def _matching(self, query):
        return [row for row in self._letters.values() if self.meets(query, row[1])]


def without(query, *names):
    usual = {field.name: field.default for field in attrs.fields(DeadLetterQuery)} | {"attributes": {}}
    return attrs.evolve(query, **{name: usual[name] for name in names})


BY_FIELDS = ("test_search_by_what_else_a_letter_tells_gives_what_meets_it",)
BY_WINDOW = ("test_window_takes_in_its_beginning_and_not_its_end",)


class WithoutRecipient(Meeting):
    def meets(self, query, letter):
        return without(query, "recipient").matches(letter)


class TestQueryWithoutTheRecipient(Mutant):
    broken = WithoutRecipient
    caught_by = BY_FIELDS


class OneAttribute(Meeting):
    def meets(self, query, letter):
        attributes = query.attributes.items()
        return without(query, "attributes").matches(letter) and (
            not attributes or bool(attributes & letter.attributes.items())
        )


class TestQueryOfWhichOneAttributeHolds(Mutant):
    broken = OneAttribute
    caught_by = BY_FIELDS


class AnyName(Meeting):
    def meets(self, query, letter):
        values = set(letter.attributes.values())
        return without(query, "attributes").matches(letter) and set(query.attributes.values()) <= values


class TestQueryOfAttributesOfAnyName(Mutant):
    broken = AnyName
    caught_by = BY_FIELDS


class EmptyIsMissing(Meeting):
    def meets(self, query, letter):
        return without(query, "attributes").matches(letter) and all(
            letter.attributes.get(name, "") == value for name, value in query.attributes.items()
        )


class TestAttributeThatIsMissingTakenForAnEmptyOne(Mutant):
    broken = EmptyIsMissing
    caught_by = BY_FIELDS


class OnlyMessage(Meeting):
    def meets(self, query, letter):
        return query.matches(attrs.evolve(letter, decision=""))


class TestTextOfTheMessageAlone(Mutant):
    broken = OnlyMessage
    caught_by = BY_FIELDS


class Joined(Meeting):
    def meets(self, query, letter):
        return query.matches(attrs.evolve(letter, decision=letter.error_message + letter.decision))


class TestTextThatGoesFromOneFieldIntoTheNext(Mutant):
    broken = Joined
    caught_by = BY_FIELDS


class Lower(Meeting):
    def meets(self, query, letter):
        text = (query.text or "").lower()
        return without(query, "text").matches(letter) and (
            text in letter.error_message.lower() or text in letter.decision.lower()
        )


class TestTextInTheCaseOfOneLanguage(Mutant):
    broken = Lower
    caught_by = BY_FIELDS


class ToTheEnd(Meeting):
    def meets(self, query, letter):
        until = query.until and query.until + timedelta(milliseconds=1)
        return attrs.evolve(query, until=until).matches(letter)


class TestWindowWithItsEnd(Mutant):
    broken = ToTheEnd
    caught_by = BY_WINDOW


class Seconds(Meeting):
    def meets(self, query, letter):
        return query.matches(attrs.evolve(letter, dead_lettered_at=letter.dead_lettered_at.replace(microsecond=0)))


class TestWindowToTheSecond(Mutant):
    broken = Seconds
    caught_by = BY_WINDOW


class LastFailure(Meeting):
    def meets(self, query, letter):
        return query.matches(attrs.evolve(letter, dead_lettered_at=letter.last_failed_at))


class TestWindowOfTheLastFailure(Mutant):
    broken = LastFailure
    caught_by = BY_WINDOW


class FirstOutside(_DeadLetters):
    """Stops at the first letter that lies outside of the window."""

    def _search(self, query, limit, cursor):
        page = super()._search(without(query, "since", "until"), limit, cursor)
        inside = [query.takes_in(letter.dead_lettered_at) for letter in page.letters]
        first = inside.index(True) if True in inside else 0
        last = next((number for number in range(first, len(inside)) if not inside[number]), len(inside))
        return attrs.evolve(page, letters=page.letters[first:last])


class TestWindowOfLettersInTheirOrder(Mutant):
    broken = FirstOutside
    caught_by = ("test_window_of_letters_that_came_late_finds_them",)


class TopOfAllTime(_DeadLetters):
    def _top(self, facet, query, limit):
        return super()._top(facet, without(query, "since", "until"), limit)


class TestTopThatForgetsTheWindow(Mutant):
    broken = TopOfAllTime
    caught_by = ("test_top_of_a_window_follows_what_happens", *BY_WINDOW)


class PurgingWithout(_DeadLetters):
    def _purge(self, before, query, limit):
        return super()._purge(before, without(query, *self.names), limit)


class PurgingWithoutWindow(PurgingWithout):
    names = ("since", "until")


class TestPurgeThatForgetsTheWindow(Mutant):
    broken = PurgingWithoutWindow
    caught_by = ("test_purge_takes_only_what_its_window_attributes_and_text_ask_for",)


class PurgingWithoutText(PurgingWithout):
    names = ("text", "attributes")


class TestPurgeThatForgetsTextAndAttributes(Mutant):
    broken = PurgingWithoutText
    caught_by = ("test_purge_takes_only_what_its_window_attributes_and_text_ask_for",)


class Grouping(_DeadLetters):
    """Gives groups that are changed."""

    def _groups(self, query, order, muted, limit, cursor):
        page = super()._groups(query, order, muted, limit, cursor)
        return attrs.evolve(page, groups=[self.changed(group, query) for group in page.groups])

    def letters_of(self, group):
        return [letter for letter in self._newest_first() if letter.fingerprint == group.fingerprint]


class FirstPut(Grouping):
    def changed(self, group, _):
        first = self.letters_of(group)[-1]
        return attrs.evolve(group, error_code=first.error_code, error_message=first.error_message)


class TestGroupThatTellsItsFirstLetter(Mutant):
    broken = FirstPut
    caught_by = ("test_group_tells_its_cause_its_letters_and_when_it_was_seen",)


class SeenWhenPut(Grouping):
    def changed(self, group, _):
        letters = self.letters_of(group)
        return attrs.evolve(group, first_seen=letters[-1].dead_lettered_at, last_seen=letters[0].dead_lettered_at)


class TestGroupSeenInTheOrderOfPutting(Mutant):
    broken = SeenWhenPut
    caught_by = ("test_group_tells_its_cause_its_letters_and_when_it_was_seen",)


class OfTheQuery(Grouping):
    def changed(self, group, query):
        died = [letter.dead_lettered_at for letter in self.letters_of(group) if query.matches(letter)]
        return attrs.evolve(group, first_seen=min(died), last_seen=max(died))


class TestGroupSeenWithinTheQuery(Mutant):
    broken = OfTheQuery
    caught_by = ("test_groups_of_a_query_are_those_of_which_a_letter_matches",)


class AllSamples(Grouping):
    def changed(self, group, _):
        return attrs.evolve(group, letter_ids=tuple(letter.id for letter in self.letters_of(group)[:5]))


class TestGroupThatNamesLettersOfOtherQueries(Mutant):
    broken = AllSamples
    caught_by = (
        "test_groups_of_a_query_are_those_of_which_a_letter_matches",
        "test_group_names_its_five_newest_letters",
    )


class ByTheirDeath(Grouping):
    def changed(self, group, query):
        letters = [letter for letter in self.letters_of(group) if query.matches(letter)]
        letters.sort(key=lambda letter: letter.dead_lettered_at, reverse=True)
        return attrs.evolve(group, letter_ids=tuple(letter.id for letter in letters[:5]))


class TestGroupThatNamesThoseThatDiedLast(Mutant):
    broken = ByTheirDeath
    caught_by = ("test_group_names_its_five_newest_letters",)


class StatesOfTheirPutting(_DeadLetters):
    def _resolve(self, letter_id):
        super()._resolve(letter_id)
        self._resolved = {*getattr(self, "_resolved", ()), letter_id}

    def _groups(self, query, order, muted, limit, cursor):
        page = super()._groups(query, order, muted, limit, cursor)
        groups = [attrs.evolve(each, counts={DeadLetterState.QUARANTINED: each.total}) for each in page.groups]
        return attrs.evolve(page, groups=groups)


class TestGroupWhoseCountsDoNotFollow(Mutant):
    broken = StatesOfTheirPutting
    caught_by = ("test_group_tells_its_cause_its_letters_and_when_it_was_seen",)


class WithNone(_DeadLetters):
    def _newest_first(self):
        return [
            letter if letter.fingerprint is not None else attrs.evolve(letter, fingerprint="")
            for letter in super()._newest_first()
        ]


class TestGroupOfLettersWithoutFingerprint(Mutant):
    broken = WithNone
    caught_by = ("test_groups_come_in_the_order_asked_for",)


class OneOrder(_DeadLetters):
    def _groups(self, query, order, muted, limit, cursor):
        return super()._groups(query, "last_seen", muted, limit, cursor)


class TestGroupsInOneOrder(Mutant):
    broken = OneOrder
    caught_by = ("test_groups_come_in_the_order_asked_for",)


class AnyCursor(_DeadLetters):
    def _groups(self, query, order, muted, limit, cursor):
        try:
            return super()._groups(query, order, muted, limit, cursor)
        except ConfigurationError:
            return super()._groups(query, order, muted, limit, None)


class TestGroupsThatBeginAnew(Mutant):
    broken = AnyCursor
    caught_by = ("test_groups_with_another_cursor_or_order_are_refused",)


class CursorOfRank(_DeadLetters):
    def _groups(self, query, order, muted, limit, cursor):
        page = super()._groups(query, order, muted, limit, cursor)
        return attrs.evolve(page, cursor=page.cursor and page.cursor.rpartition("-")[0] + "-7a7a7a7a7a7a")


class TestGroupsPagedByRankAlone(Mutant):
    broken = CursorOfRank
    caught_by = ("test_groups_page_by_page_gives_each_group_once",)


class EmptyGroups(_DeadLetters):
    def _purge(self, before, query, limit):
        self._gone = {letter.fingerprint: letter for letter in self._newest_first()}
        return super()._purge(before, query, limit)

    def _groups(self, query, order, muted, limit, cursor):
        page = super()._groups(query, order, muted, limit, cursor)
        gone = getattr(self, "_gone", {}).get(query.fingerprint)
        if page.groups or gone is None or query.fingerprint is None:
            return page
        at = gone.dead_lettered_at
        empty = DeadLetterGroup(
            fingerprint=query.fingerprint,
            error_class=gone.error_class,
            error_code=None,
            provider=None,
            error_message="",
            counts={},
            first_seen=at,
            last_seen=at,
            matching=0,
            letter_ids=(),
        )
        return attrs.evolve(page, groups=[empty])


class TestGroupThatOutlivesItsLetters(Mutant):
    broken = EmptyGroups
    caught_by = ("test_groups_follow_what_happens_to_their_letters", "test_note_survives_the_purge_of_its_letters")


class Noting(_DeadLetters):
    def _annotate(self, fingerprint, change):
        old = self._notes.get(fingerprint, GroupNote())
        group = super()._annotate(fingerprint, change)
        if group is None:
            return self.of_none(fingerprint, change)
        with self._shared.locked() as now:
            self._notes[fingerprint] = self.noted(old, change, now)
        return self._groups(DeadLetterQuery(fingerprint=fingerprint), "last_seen", True, 1, None).groups[0]

    def of_none(self, fingerprint, change):
        return None

    def noted(self, old, change, now):
        return change.made_to(old, now)


class Replacing(Noting):
    def noted(self, old, change, now):
        return change.made_to(GroupNote(), now)


class TestNoteThatReplacesTheOneBefore(Mutant):
    broken = Replacing
    caught_by = ("test_annotate_notes_who_said_what_and_when",)


class Anonymous(Noting):
    def noted(self, old, change, now):
        new = change.made_to(old, now)
        return (
            new if old.updated_by is None else attrs.evolve(new, updated_by=old.updated_by, updated_at=old.updated_at)
        )


class TestNoteOfItsFirstAuthor(Mutant):
    broken = Anonymous
    caught_by = ("test_annotate_notes_who_said_what_and_when",)


class NotingNothing(Noting):
    def of_none(self, fingerprint, change):
        with self._shared.locked() as now:
            self._notes[fingerprint] = change.made_to(GroupNote(), now)


class TestNoteOfNoGroup(Mutant):
    broken = NotingNothing
    caught_by = ("test_annotate_of_no_group_notes_nothing",)


class SlowNote(_DeadLetters):
    def _annotate(self, fingerprint, change):
        old = self._notes.get(fingerprint, GroupNote())
        gap()
        self._notes[fingerprint] = old
        return super()._annotate(fingerprint, change)


class TestNoteThatReadsBeforeItWrites(Mutant):
    broken = SlowNote
    caught_by = ("test_threads_annotating_different_things_lose_nothing",)


class HalfNote(_DeadLetters):
    def _annotate(self, fingerprint, change):
        super()._annotate(fingerprint, attrs.evolve(change, note=None))
        return super()._annotate(fingerprint, change)


class TestNoteInTwoSteps(Mutant):
    broken = HalfNote
    caught_by = ("test_annotate_interrupted_in_the_middle_is_done_or_not",)


class MutedForGood(Noting):
    def noted(self, old, change, now):
        new = change.made_to(old, now)
        return attrs.evolve(new, muted_until=None)


class TestGroupMutedForGood(Mutant):
    broken = MutedForGood
    caught_by = ("test_muted_group_is_shown_only_on_demand_until_its_time_is_over",)


class Unmuting(Noting):
    def noted(self, old, change, now):
        new = change.made_to(old, now)
        return new if change.muted is not None else attrs.evolve(new, muted=False, muted_until=None)


class TestNoteThatUnmutes(Mutant):
    broken = Unmuting
    caught_by = ("test_muted_group_is_shown_only_on_demand_until_its_time_is_over",)


class ShowingMuted(_DeadLetters):
    def _groups(self, query, order, muted, limit, cursor):
        return super()._groups(query, order, True, limit, cursor)


class TestGroupsWithTheMutedOnes(Mutant):
    broken = ShowingMuted
    caught_by = ("test_muted_group_is_shown_only_on_demand_until_its_time_is_over",)


class ForgettingNotes(_DeadLetters):
    def _purge(self, before, query, limit):
        gone = super()._purge(before, query, limit)
        left = {letter.fingerprint for letter in self._newest_first()}
        self._notes = {name: note for name, note in self._notes.items() if name in left}
        return gone


class TestNoteThatGoesWithItsLetters(Mutant):
    broken = ForgettingNotes
    caught_by = ("test_note_survives_the_purge_of_its_letters",)


class OneStepLate(_DeadLetters):
    def _trend(self, query, start, step, steps):
        return [0, *super()._trend(query, start, step, steps)][:steps]


class TestTrendOneStepLate(Mutant):
    broken = OneStepLate
    caught_by = ("test_trend_counts_the_letters_of_each_step",)


class WholeSteps(_DeadLetters):
    def _trend(self, query, start, step, steps):
        whole = attrs.evolve(query, since=start, until=start + timedelta(seconds=step * steps))
        return super()._trend(whole, start, step, steps)


class TestTrendOfWholeSteps(Mutant):
    broken = WholeSteps
    caught_by = ("test_trend_counts_the_letters_of_each_step",)


class TrendOfAll(_DeadLetters):
    def _trend(self, query, start, step, steps):
        return super()._trend(without(query, "provider"), start, step, steps)


class TestTrendThatForgetsTheQuery(Mutant):
    broken = TrendOfAll
    caught_by = ("test_trend_counts_the_letters_of_each_step",)


class Reckoning(_DeadLetters):
    def _stats(self):
        with self._shared.locked() as now:
            return self.reckoned([letter for _, letter in self._letters.values()], now)


class GrowthOfTheLiving(Reckoning):
    def reckoned(self, letters, now):
        waiting = [letter for letter in letters if letter.state is DeadLetterState.QUARANTINED]
        growth = stats_of(waiting, now)
        return attrs.evolve(stats_of(letters, now), died_last_hour=growth.died_last_hour)


class TestGrowthWithoutWhatIsResolved(Mutant):
    broken = GrowthOfTheLiving
    caught_by = ("test_stats_tell_the_depth_and_the_growth",)


class OldestOfAll(Reckoning):
    def reckoned(self, letters, now):
        oldest = min((letter.dead_lettered_at for letter in letters), default=None)
        return attrs.evolve(stats_of(letters, now), oldest_quarantined_at=oldest)


class TestOldestOfAllStates(Mutant):
    broken = OldestOfAll
    caught_by = ("test_stats_tell_the_depth_and_the_growth",)


class OpenHour(Reckoning):
    def reckoned(self, letters, now):
        return stats_of(letters, now + timedelta(milliseconds=1))


class TestGrowthAMillisecondLate(Mutant):
    broken = OpenHour
    caught_by = ("test_stats_tell_the_depth_and_the_growth",)


class WithTheFuture(Reckoning):
    def reckoned(self, letters, now):
        hour = sum(letter.dead_lettered_at >= now - timedelta(hours=1) for letter in letters)
        return attrs.evolve(stats_of(letters, now), died_last_hour=hour)


class TestGrowthWithTheFuture(Mutant):
    broken = WithTheFuture
    caught_by = ("test_stats_tell_the_depth_and_the_growth",)


class CountingEarly(Reckoning):
    def reckoned(self, letters, now):
        stats = stats_of(letters, now)
        return (
            attrs.evolve(stats, resolved=stats.resolved + len(self._resolved_early)) if letters else DeadLetterStats()
        )


class TestDepthWithWhatIsNotThereYet(Mutant):
    broken = CountingEarly
    caught_by = ("test_stats_tell_the_depth_and_the_growth",)


class TestNotesOfOneProcess(Mutant):
    broken = _DeadLetters
    features = frozenset({"reopen"})
    caught_by = ("test_store_opened_again_finds_its_notes",)
