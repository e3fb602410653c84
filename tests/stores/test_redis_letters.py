"""What the Redis backend does with dead letters in several steps: in small ones, and while others change what is looked at."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from tests.capabilities import require

require("redis", "valkey-server")

import redis

from retrykit.backends import MemoryBackend
from retrykit.backends.redis import RedisBackend, letter_queries
from retrykit.backends.redis.commands import Space
from retrykit.backends.redis.dead_letters import DeadLetters
from retrykit.machines.letter import discarded
from retrykit.stores import DeadLetterQuery, GroupChange
from retrykit.testing.conformance import DeadLetterStoreSuite
from retrykit.testing.conformance.dead_letters_samples import DIED, letter
from tests.servers import valkey

LATER = DIED + timedelta(days=1)


class TestDeadLettersInSmallSteps(DeadLetterStoreSuite):
    """As with many thousands of letters: every walk takes several calls."""

    def make_store(self, place):
        return RedisBackend.from_url(f"{valkey.shared()}?prefix={place.name}", clock=place.clock)

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(letter_queries, "_BATCH", 2)
        monkeypatch.setattr(letter_queries, "_PAGE", 2)


@pytest.fixture
def client():
    with redis.Redis.from_url(valkey.shared()) as made:
        yield made


def stepped(client, flow, between):
    """Run a flow to its end, and something else after its first call."""
    call = next(flow)
    try:
        while True:
            reply = client.execute_command("EVAL", call.script.text, 2, *call.keys, *call.args, NEVER_DECODE=True)
            between()
            call = flow.send(reply)
    except StopIteration as done:
        return done.value


@pytest.mark.parametrize("limit", [1, 20])
def test_groups_whose_letters_are_purged_meanwhile_are_left_out(client, limit):
    """The page ends, and nothing fails."""
    prefix = f"purged-{limit}"
    store = RedisBackend(client, prefix).dead_letters
    for name in "ab":
        store.put(letter(name, fingerprint=name))
    flow = DeadLetters(Space(prefix, "dead_letters", None))._groups(DeadLetterQuery(), "last_seen", True, limit, None)
    page = stepped(client, flow, lambda: store.purge(LATER))
    assert ([], None) == (list(page.groups), page.cursor)


def test_note_on_a_group_whose_letters_are_purged_meanwhile_is_not_made(client):
    """As where there had been none."""
    store = RedisBackend(client, "noted").dead_letters
    store.put(letter(fingerprint="v1:x"))
    flow = DeadLetters(Space("noted", "dead_letters", None))._annotate("v1:x", GroupChange(by="me", note="n"))
    assert stepped(client, flow, lambda: store.purge(LATER)) is None
    assert not client.exists("{noted:dead_letters}:notes")


def test_letter_that_changes_while_it_is_judged_is_judged_again(client):
    """Of two that discard it the first is noted."""
    store = RedisBackend(client, "judged").dead_letters
    kept = store.put(letter())
    flow = DeadLetters(Space("judged", "dead_letters", None))._change(kept.id, partial(discarded, note="late"))
    found = stepped(client, flow, lambda: store.discard(kept.id, note="first"))
    assert "first" == found.note == store.get(kept.id).note


@pytest.mark.parametrize("condition", [{"text": "quota"}, {"attributes": {"tenant": "acme"}}])
def test_letters_looked_through_one_by_one_are_counted_as_in_memory(client, condition):
    """By value, and over time."""
    prefix = "-".join(["through", *condition])
    stores = RedisBackend(client, prefix).dead_letters, MemoryBackend().dead_letters
    for number in range(12):
        made = letter(
            f"m-{number}",
            dead_lettered_at=DIED + timedelta(minutes=20 * number),
            error_message="over quota" if number % 3 else "refused",
            attributes={"tenant": "acme" if number % 2 else "other"},
            provider=f"p{number % 5}" if number % 4 else None,
        )
        for store in stores:
            store.put(made)
    query = DeadLetterQuery(since=DIED, until=LATER, **condition)
    ours, model = (
        [store.count(query), list(store.top("provider", query=query)), list(store.trend(query, step="1h").counts)]
        for store in stores
    )
    assert model == ours
    assert model[0] > 2
