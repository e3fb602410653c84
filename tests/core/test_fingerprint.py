"""The fingerprint: equal for one cause, whatever the case; another for another cause."""

from __future__ import annotations

import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.fingerprint import fingerprint, normalise
from retrykit.testing.strategies import any_text, failures

FAILURE = Failure(
    error_class=ErrorClass.MAILBOX_FULL,
    outcome=Outcome.REJECTED,
    error_code="452",
    enhanced_code="4.2.2",
    error_message="<ada@example.org>: quota of 10 MB used, message abc-123 kept",
    stage="send",
    frame="shop.mail:send",
)


@given(failures)
def test_fingerprint_is_a_version_and_sixteen_digits(failure):
    """Of any failure."""
    assert re.fullmatch(r"v1:[0-9a-f]{16}", fingerprint(failure))


def test_fingerprint_of_version_1_never_changes():
    """What was noted about a fingerprint stays true."""
    assert fingerprint(FAILURE) == "v1:c108c658a055e2aa"
    assert fingerprint(Failure(error_class=ErrorClass.UNKNOWN, outcome=Outcome.UNKNOWN)) == "v1:b53b83da4be58cb5"


@pytest.mark.parametrize(
    "changes",
    [
        {"error_message": "<bob@example.net>: quota of 250 MB used, message xyz-9 kept"},
        {"error_message": "  <bob@EXAMPLE.net>:\n QUOTA of 1,024 kb used, message deadbeef kept "},
        {"provider": "other"},
        {"outcome": Outcome.UNKNOWN},
        {"retry_after": 60.0},
        {"rule": "other"},
    ],
)
def test_fingerprint_is_the_same_for_another_case_of_one_cause(changes):
    """Addresses, numbers, ids, and who answered make no difference."""
    assert fingerprint(FAILURE) == fingerprint(attrs.evolve(FAILURE, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"error_class": ErrorClass.SOFT_BOUNCE},
        {"error_code": "552"},
        {"error_code": None},
        {"enhanced_code": "4.2.1"},
        {"stage": "render"},
        {"stage": None},
        {"frame": "shop.mail:resend"},
        {"frame": None},
        {"error_message": "<ada@example.org>: disk quota of 10 MB used, message abc-123 kept"},
        {"error_message": ""},
    ],
)
def test_fingerprint_is_another_for_another_cause(changes):
    """Class, codes, stage, place and wording each make a difference."""
    assert fingerprint(FAILURE) != fingerprint(attrs.evolve(FAILURE, **changes))


def test_fingerprint_does_not_run_its_parts_together():
    """A code is no part of the stage."""
    one = attrs.evolve(FAILURE, error_code="a", enhanced_code="bc")
    assert fingerprint(one) != fingerprint(attrs.evolve(FAILURE, error_code="ab", enhanced_code="c"))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("", ""),
        ("  Mailbox\r\n\t FULL  ", "mailbox full"),
        ("550 5.1.1 no such user", "<id> <id> no such user"),
        ("<Ada.Lovelace+x@Mail.Example.ORG>: unknown", "<<email>>: unknown"),
        ("to: ada@example.org; from:bob@example.net.", "to: <email>; from:<email>."),
        ("bounce+ada=example.org@lists.example.net", "<email>"),
        ("see https://example.org/a?b=1&c=2. Or ftp://x/y!", "see <url>. or <url>!"),
        ("10.0.0.1:587 and [192.168.1.20] refused.", "<ip>:<id> and [<ip>] refused."),
        ("2001:db8::1, ::1, fe80::1%eth0, 1:2:3:4:5:6:7:8", "<ip>, <ip>, <ip>%<id>, <ip>"),
        ("[IPv6:2001:db8::ffff:10.0.0.1] ::ffff:10.0.0.1 ::10.0.0.1", "[<ip>] <ip> <ip>"),
        ("std::error at foo::bar", "std::error at foo::bar"),
        ("id 550e8400-e29b-41d4-a716-446655440000", "id <id>"),
        ("0xDEADBEEF 4f2a9c81 deadbeefcafe defaced", "<id> <id> <id> defaced"),
        ("2026-01-31", "<time>"),
        ("2026-01-31T08:00:00Z 2026-01-31 08:00:00.123456+02:00 08:00:00", "<time> <time> <time>"),
        ("Sat, 31 Jan 2026 08:00:00 +0000", "<time>"),
        ("31 Jan 2026", "<time>"),
        ("10 MB, 5.5GiB, 1 byte, 1,234.5 bytes, 3", "<id>, <id>, <id>, <id>, <id>"),
        ("-5 +5 5% 1e10 .", "<id> <id> <id>% <id> ."),
        ("order abc-123 of mx1.example.org, user_42", "order <id> of <id>, <id>"),
        ("'ada' \"bob\" `x` “y” \u2018z\u2019 «w»", "<text> <text> <text> <text> <text> <text>"),
        ("can't open user's file 'a b'", "can't open user's file <text>"),
        ("'not closed", "'not closed"),
        ("line 12, column 7 (char 131)", "line <id>, column <id> (char <id>)"),
        ("größe Ä ٣", "größe ä <id>"),
    ],
)
def test_normalise_leaves_the_wording(message, expected):
    """What differs from case to case is a placeholder."""
    assert expected == normalise(message)


emails = st.emails().filter(lambda address: not set("'`") & set(address))  # a part in quotes is a text


@given(
    emails | st.uuids().map(str) | st.ip_addresses().map(str) | st.datetimes().map(str) | st.integers().map(str),
    st.integers(0, 10**12),
    st.from_regex(r"[a-z]{1,8}-[0-9]{1,8}", fullmatch=True),
    st.text("0123456789abcdef", min_size=8, max_size=64),
)
def test_normalise_drops_every_address_number_and_id(address, number, name, digits):
    """Whatever they are."""
    normal = normalise(f"cannot reach {address} after {number} tries of {name} ({digits})")
    assert re.fullmatch(r"cannot reach <(email|id|ip|time)> after <id> tries of <id> \(<id>\)", normal)


@given(any_text)
def test_normalise_takes_any_text(text):
    """And what it leaves is short and has neither upper-case letters nor digits."""
    normal = normalise(text)
    assert len(normal) <= 500
    assert not re.search(r"\d|\s\s", normal)
    assert normal == normal.lower()


@pytest.mark.parametrize(
    "unit",
    [
        "'",
        '"',
        "“",
        "'a ",
        "a@",
        "@",
        "1:",
        "::",
        "f:",
        "a",
        "1",
        "1,",
        "1.",
        "-.",
        "a.b-",
        "http://",
        "<id> ",
        "2026-",
        " ",
    ],
)
def test_normalise_looks_at_a_bounded_part_of_a_hostile_text(unit):
    """What stands behind the first 2,000 characters makes no difference, so a megabyte costs no more than they do."""
    text = unit * (1_000_000 // len(unit))
    assert normalise(text) == normalise(text[:2_000] + "!" * 1_000_000)
    assert len(normalise(text)) <= 500


def test_normalise_keeps_the_same_part_where_the_cut_falls_into_an_address():
    """Addresses of other lengths shift what is looked at; what counts lies well before."""
    messages = [f"no route to {'a' * size}@example.org: " + "word " * 1_000 for size in (1, 30, 60)]
    assert len({normalise(message) for message in messages}) == 1
