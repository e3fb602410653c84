"""Queries of dead letters: the object, what it matches, and its short text form."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime, timedelta

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retrykit.clock import use_clock
from retrykit.dead_letter import DeadLetterState
from retrykit.decision import DeadLetterReason
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass, ErrorGroup
from retrykit.stores import DeadLetterQuery
from retrykit.stores.dead_letter_query import EQUAL_FIELDS
from retrykit.stores.dead_letter_text import MAX_LENGTH, SHORT_KEYS
from retrykit.stores.dead_letters import FACETS
from retrykit.testing import ManualClock
from retrykit.testing.conformance.dead_letters_samples import letter
from retrykit.testing.strategies import any_text, hostile_characters, instants, letters

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def parse(text):
    return DeadLetterQuery.parse(text, now=NOON)


def refusal(call):
    with pytest.raises(ConfigurationError) as caught:
        call()
    return str(caught.value)


@st.composite
def queries(draw):
    fields = {name: draw(st.none() | any_text) for name in EQUAL_FIELDS}
    fields["error_group"] = draw(st.none() | st.sampled_from(ErrorGroup))
    fields["reason"] = draw(st.none() | st.sampled_from(DeadLetterReason))
    fields["state"] = draw(st.none() | st.sampled_from(DeadLetterState))
    fields["text"] = draw(st.none() | any_text.filter(bool))
    fields["attributes"] = draw(st.dictionaries(any_text, any_text, max_size=3))
    since, until = sorted((draw(instants), draw(instants)))
    if since < until:
        fields["since"], fields["until"] = draw(st.sampled_from([None, since])), draw(st.sampled_from([None, until]))
    return DeadLetterQuery(**fields)


@given(queries())
@example(DeadLetterQuery(attributes={"": "", ":": ":", 'a"b': "\\", "a b": "\n"}))
@example(DeadLetterQuery(text="since:2h"))
@example(DeadLetterQuery(message_id="\x85", campaign_id="\u2028", provider="\ud800"))
def test_text_form_of_any_query_reads_as_that_query(query):
    """Whatever stands in its values, as long as the text is not too long to be read."""
    text = str(query)
    if len(text) <= MAX_LENGTH:
        assert query == DeadLetterQuery.parse(text)
        assert text == str(DeadLetterQuery.parse(text))
    else:
        assert "4000" in refusal(lambda: DeadLetterQuery.parse(text))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("", DeadLetterQuery()),
        (" \t\n ", DeadLetterQuery()),
        ("campaign:spring", DeadLetterQuery(campaign_id="spring")),
        ("campaign_id:spring", DeadLetterQuery(campaign_id="spring")),
        (
            'campaign:spring class:rendering_failure provider:ses since:2h text:"first_name"',
            DeadLetterQuery(
                campaign_id="spring",
                error_class="rendering_failure",
                provider="ses",
                since=NOON - timedelta(hours=2),
                text="first_name",
            ),
        ),
        ("first_name", DeadLetterQuery(text="first_name")),
        ('"over quota"', DeadLetterQuery(text="over quota")),
        ('"campaign:spring"', DeadLetterQuery(text="campaign:spring")),
        ("code:4.2.2:x", DeadLetterQuery(error_code="4.2.2:x")),
        ('provider:""', DeadLetterQuery(provider="")),
        ("recipient:ä", DeadLetterQuery(recipient="ä")),
        (r'message:"a\"b\\c\n\u00e4"', DeadLetterQuery(message_id='a"b\\c\nä')),
        ("message:c:\\x", DeadLetterQuery(message_id="c:\\x")),
        ("attribute.tenant:acme", DeadLetterQuery(attributes={"tenant": "acme"})),
        ("attributes.tenant:acme attribute.plan:gold", DeadLetterQuery(attributes={"tenant": "acme", "plan": "gold"})),
        ('attribute."a: b":c', DeadLetterQuery(attributes={"a: b": "c"})),
        ("since:2026-01-01", DeadLetterQuery(since=datetime(2026, 1, 1, tzinfo=UTC))),
        ("until:2026-01-01T08:00:00+02:00", DeadLetterQuery(until=datetime(2026, 1, 1, 6, tzinfo=UTC))),
        ("until:2026-01-01T08:00:00Z", DeadLetterQuery(until=datetime(2026, 1, 1, 8, tzinfo=UTC))),
        ("since:1d until:90m", DeadLetterQuery(since=NOON - timedelta(days=1), until=NOON - timedelta(minutes=90))),
        ("since:0s", DeadLetterQuery(since=NOON)),
        ("group:internal", DeadLetterQuery(error_group=ErrorGroup.INTERNAL)),
        ("reason:expired state:resolved", DeadLetterQuery(reason="expired", state="resolved")),
        (
            "stage:send source:orders fingerprint:v1:abc enhanced:5.2.2",
            DeadLetterQuery(stage="send", source="orders", fingerprint="v1:abc", enhanced_code="5.2.2"),
        ),
    ],
)
def test_text_is_read_as_the_query_it_means(text, query):
    """Each key in its short and its long form."""
    assert query == parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("campaigns:spring", "at character 1, 'campaigns:spring', has the unknown key 'campaigns'"),
        ("campaigns:spring", "did you mean 'campaign'?"),
        ("state:resolved klass:x", "at character 16, 'klass:x', has the unknown key 'klass'"),
        ("klass:x", "did you mean 'class'?"),
        (":x", "has the unknown key ''"),
        ("http://example.org", "text with a colon in it has to be quoted"),
        ("state:resolve", "state is 'resolve'; did you mean 'resolved'?"),
        ("group:temporary", "error_group is 'temporary'"),
        ("reason:x", "reason is 'x'; allowed are"),
        ("campaign:", "has no value; the empty text is written"),
        ("campaign: spring", "at character 1, 'campaign: spring', has no value"),
        ('campaign:"spring', "has a quote that is not closed"),
        ('campaign:sp"ring', "has a quote inside a word"),
        ('campaign:"a"b', "has a quote inside a word"),
        (r'campaign:"\x"', "has an escape that is none"),
        (r'campaign:"\ud8"', "has an escape that is none"),
        ("attribute.:x", "has no name of an attribute"),
        (r'attribute."\x":x', "has an escape that is none"),
        ("since:yesterday", "since is 'yesterday'; allowed is how long ago"),
        ("since:2026-02-30", "since is '2026-02-30'"),
        ("since:2026-01-01T00:00:00", "an instant with a timezone"),
        ("since:99999999999d", "since is '99999999999d'"),
        ("since:-2h", "since is '-2h'"),
        ("since:1h until:2h", "allowed is a since before until"),
        ("since:1h until:1h", "allowed is a since before until"),
        ("campaign:a campaign:b", "gives campaign a second time"),
        ("campaign:a campaign_id:b", "gives campaign a second time"),
        ("attribute.a:b attributes.a:c", "gives the attribute 'a' a second time"),
        ("first second", 'gives text a second time; put several words into quotes, "as here"'),
        ('text:""', "looks for nothing"),
        ('""', "looks for nothing"),
        ("x" * (MAX_LENGTH + 1), "the query has 4001 characters; allowed are 4000"),
    ],
)
def test_text_that_is_no_query_is_refused_with_its_place(text, said):
    """The place is quoted, what is wrong is said, and the nearest word that is allowed."""
    assert said in refusal(lambda: parse(text))


@pytest.mark.parametrize("text", [None, 1, b"campaign:spring"])
def test_what_is_no_text_is_refused(text):
    """By its type."""
    assert "type" in refusal(lambda: parse(text))


def test_naive_now_is_refused():
    """It could mean any zone."""
    assert "now" in refusal(lambda: DeadLetterQuery.parse("since:2h", now=datetime(2026, 1, 1)))  # noqa: DTZ001


def test_ages_are_counted_from_the_clock_in_force():
    """Where no instant is given."""
    with use_clock(ManualClock(NOON)):
        assert NOON - timedelta(hours=2) == DeadLetterQuery.parse("since:2h").since


@given(st.text(st.sampled_from(list('ab:."\\ \n')) | hostile_characters, max_size=60))
def test_any_text_is_a_query_or_is_refused(text):
    """Nothing else comes out, and what is read is written and read again alike."""
    try:
        query = parse(text)
    except ConfigurationError:
        return
    assert query == parse(str(query))


@pytest.mark.parametrize("piece", ['"', "\\", '"\\', 'a:"', "a:", "a ", 'attribute."', "attribute.", " ", '"" ', ":"])
def test_reading_takes_time_in_proportion_to_the_length(piece):
    """No text makes the reader look at a place again and again."""

    def seconds(length):
        text = (piece * length)[:length]
        best = 9.0
        for _ in range(5):
            began = time.perf_counter()
            with contextlib.suppress(ConfigurationError):
                parse(text)
            best = min(best, time.perf_counter() - began)
        return best

    assert seconds(MAX_LENGTH) < 40 * seconds(MAX_LENGTH // 8) + 0.005


def test_every_field_of_a_query_has_a_short_key():
    """So that nothing can be asked in the library alone."""
    fields = {field.name for field in attrs.fields(DeadLetterQuery)} - {"attributes"}
    assert fields == set(SHORT_KEYS.values())
    assert set(FACETS) <= set(EQUAL_FIELDS)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"campaign_id": 1}, "campaign_id is of type int"),
        ({"error_class": object()}, "error_class is of type object"),
        ({"error_group": "intern"}, "error_group is 'intern'; did you mean 'internal'?"),
        ({"state": 5}, "state is 5; allowed are"),
        ({"reason": "spring"}, "reason is 'spring'"),
        ({"attributes": [("a", "b")]}, "attributes is of type list"),
        ({"attributes": {"a": 1}}, "attributes is of type dict"),
        ({"attributes": {1: "a"}}, "attributes is of type dict"),
        ({"since": datetime(2026, 1, 1)}, "since is the naive datetime"),  # noqa: DTZ001
        ({"until": datetime(2026, 1, 1)}, "until is the naive datetime"),  # noqa: DTZ001
        ({"since": NOON, "until": NOON}, "allowed is a since before until"),
        ({"text": ""}, "text is ''"),
    ],
)
def test_query_that_no_letter_can_meet_is_refused(fields, said):
    """Where it is made."""
    assert said in refusal(lambda: DeadLetterQuery(**fields))


@pytest.mark.unmeasured
@given(letters, st.data())
def test_query_made_of_a_letter_matches_it(one, data):
    """Any of its fields, attributes, instants and texts together."""
    names = data.draw(st.sets(st.sampled_from(EQUAL_FIELDS)))
    attributes = data.draw(st.sets(st.sampled_from(sorted(one.attributes)))) if one.attributes else set()
    text = data.draw(st.sampled_from([None, one.error_message or None, one.decision.upper() or None]))
    query = DeadLetterQuery(
        **{name: getattr(one, name) for name in names},
        attributes={name: one.attributes[name] for name in attributes},
        since=one.dead_lettered_at,
        until=one.dead_lettered_at + timedelta(milliseconds=1),
        text=text,
    )
    assert query.matches(one)
    assert not attrs.evolve(query, message_id=f"{one.message_id}x").matches(one)
    assert not attrs.evolve(query, since=None, until=one.dead_lettered_at).matches(one)
    assert not attrs.evolve(query, attributes={**query.attributes, "no such name": ""}).matches(one)


def test_early_resolution_is_meant_by_what_is_known_of_it():
    """Its state and its instant."""
    window = {"since": NOON, "until": NOON + timedelta(seconds=1)}
    for query in (DeadLetterQuery(), DeadLetterQuery(state="resolved"), DeadLetterQuery(**window)):
        assert query.matches_early(NOON)
    for fields in ({"state": "quarantined"}, {"provider": "ses"}, {"text": "x"}, {"attributes": {"a": "b"}}):
        assert not DeadLetterQuery(**fields).matches_early(NOON)
    assert not DeadLetterQuery(**window).matches_early(NOON + timedelta(seconds=1))


def test_query_of_an_own_class_finds_letters_of_it():
    """By its name."""
    own = letter(error_class=ErrorClass("own.class", group=ErrorGroup.INTERNAL))
    assert DeadLetterQuery(error_class="own.class").matches(own)
    assert parse("class:own.class group:internal").matches(own)
