"""SMTP replies and how their words are read."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.classification import SmtpReply
from retrykit.classification.smtp import PHASES, asked_delay, words
from retrykit.errors import ConfigurationError


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("5.1.1", "5.1.1 nobody of that name"),
        ("5.1.1", "nobody of that name (#5.1.1)"),
        ("5.1.1", "nobody of that name (5.1.1)"),
        ("5.1.1", "#5.1.1 nobody"),
        ("5.7.606", "mx.example.net said: 550 5.7.606 go away"),
        ("5.2.2", "the first line\n5.2.2 the second"),
        ("4.4.7", "4.4.7. That is all"),
        (None, "4.16.55.1 is an address"),
        (None, "mail server 4.96.2 is too busy"),
        (None, "server v5.1.1"),
        (None, "5.1.1234"),
        (None, "2.1.5 fine"),
        (None, ""),
    ],
)
def test_reply_text_gives_the_enhanced_code_but_no_version_or_address(expected, text):
    """Three numbers are an enhanced code only where one stands: at a line's start, after "#", "(" or a basic code."""
    assert expected == SmtpReply(550, text).enhanced_code


def test_reply_given_enhanced_code_wins_over_the_one_in_the_text():
    """What the caller says stands."""
    assert SmtpReply(552, "5.1.1 full", enhanced_code="5.2.2").enhanced_code == "5.2.2"


@pytest.mark.parametrize(
    ("expected", "code", "text"),
    [
        ((550, "5.1.1 no\n5.1.1 such user"), 550, "550-5.1.1 no\n550 5.1.1 such user"),
        ((550, "5.1.1 no\n5.1.1 such user"), 550, "550-5.1.1 no\r\n550 5.1.1 such user\r\n"),
        ((550, "5.1.1 no\n5.1.1 such user"), None, "550-5.1.1 no\n550 5.1.1 such user"),
        ((550, "5.1.1 no such user"), 550, b"5.1.1 no such user"),
        ((550, "503 RCPT first\nno"), 550, "503 RCPT first\n550 no"),
        ((550, "503 RCPT first\nno"), None, "503 RCPT first\n550 no"),
        ((550, ""), 550, "550"),
        ((550, "5500 of them"), 550, "5500 of them"),
        ((None, "user unknown"), None, "user unknown"),
        ((None, ""), None, ""),
        ((550, "na\xefve"), 550, b"na\xefve"),
        ((550, "na\xefve"), 550, "na\xefve".encode("utf-16")),
        ((550, "no"), "550", "no"),
        ((550, "no"), " 550 ", "no"),
        ((None, "no"), "none", "no"),
        ((None, "199 no"), 199, "no"),
        ((None, "600 no"), "600", "no"),
        ((None, "-1 no"), -1, "no"),
        ((550, "caf\u00e9"), 550, bytearray("caf\u00e9".encode())),
    ],
)
def test_reply_lines_lose_their_framing_and_keep_their_words(expected, code, text):
    """Basic codes that begin lines are framing; where none is given, the last line's is the reply's."""
    reply = SmtpReply(code, text)
    assert expected == (reply.code, reply.text)


def test_parse_whole_reply_gives_code_text_and_enhanced_code():
    """A reply as it stands in a log is read in one go."""
    assert SmtpReply(550, "5.1.1 gone", phase="rcpt") == SmtpReply.parse("550 5.1.1 gone", phase="rcpt")


@pytest.mark.parametrize(
    ("match", "arguments"),
    [
        ("True", {"code": True}),
        ("5.5", {"code": 5.5}),
        ("object", {"code": 550, "text": object()}),
        ("quit", {"code": 550, "phase": "quit"}),
    ],
)
def test_reply_value_that_no_server_can_have_sent_is_refused(match, arguments):
    """A bug of the caller is told where it is made; what a server may have said is not refused."""
    with pytest.raises(ConfigurationError, match=match):
        SmtpReply(**arguments)


@pytest.mark.parametrize("enhanced", ["5.1", "3.1.1", 511, "", "5.1.1.1", None])
def test_reply_enhanced_code_that_is_none_leaves_that_of_the_text(enhanced):
    """A server's or a log's odd value does no harm."""
    assert SmtpReply(550, "5.1.1 no", enhanced_code=enhanced).enhanced_code == "5.1.1"


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("rcpt", "host mx.example.org[192.0.2.1] said: 550 no (in reply to RCPT TO command)"),
        ("mail", "host mx.example.org said: 550 no (in reply to MAIL FROM command)"),
        ("data", "host mx.example.org said: 554 no (in reply to end of DATA command)"),
        ("connect", "host mx.example.org[192.0.2.1] refused to talk to me: 554 no"),
        ("ehlo", "host mx.example.org said: 550 no (in reply to EHLO command)"),
        ("rcpt", "SMTP error from remote mail server after RCPT TO:<ada@example.org>: 550 no"),
        ("data", "SMTP error from remote mailer after end of data: 550 no"),
        ("rcpt", "192.0.2.1 did not like our RCPT TO:\n550 no"),
        ("rcpt", ">>> MAIL From:<s@example.org>\n<<< 250 ok\n>>> RCPT To:<ada@example.org>\n<<< 550 no"),
        (None, "in reply to your command"),
        (None, "in reply to QUIT command"),
        (None, "no"),
    ],
)
def test_reply_phase_is_read_from_what_a_reporting_server_says(expected, text):
    """Bounce texts name the command that was answered; the words of the reply itself are kept apart from it."""
    reply = SmtpReply(550, text)
    assert expected == reply.phase
    assert expected is None or not any(word in words(reply.text) for word in ("rcpt to", "mail from", "end of data"))


def test_reply_phase_that_was_given_stands():
    """Who held the conversation knows better than a text."""
    assert SmtpReply(550, "no (in reply to RCPT TO command)", phase="data").phase == "data"


def test_reply_text_of_megabytes_is_cut():
    """What is kept is bounded, and quickly made."""
    assert len(SmtpReply(550, "a b@c " * 1_000_000).text) <= 1 << 16
    assert len(SmtpReply(550, b"\xff" * 1_000_000).text) <= 1 << 16


def test_reply_pickled_comes_back_equal():
    """Replies may travel between processes."""
    reply = SmtpReply(452, "4.2.2 mailbox full", phase="data")
    assert reply == pickle.loads(pickle.dumps(reply))


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (" user unknown ", "  User\tUNKNOWN.\r\n"),
        (" no such person <> ", "<unknown@example.org>: no such person unknown@example.org"),
        (" rcpt to refused <> ", "RCPT TO:<blocked@example.org> refused"),
        (" see for help ", "see https://example.org/blocked?why=spam for help"),
        (" see ", "see <http://example.org?unknown>"),
        (" host said unknown ", "host antispam.example.net[192.0.2.1] said: unknown"),
        (" listed at bl.example.org ", "listed at bl.example.org"),
        (" user unknown.please check ", "User unknown.Please check"),
        (" doesn't exist ", "doesn\u2019t exist"),
        (" mailbox ", '*** "mailbox" ...'),
        (" not ok <> ", "NOT_OK a@example.org"),
        (" <> ", "a@example.org"),
        ("", ""),
        ("", "!!! ..."),
    ],
)
def test_words_keep_what_is_said_and_drop_addresses_and_paths(expected, text):
    """Case, spacing, punctuation, addresses and the paths of URLs say nothing about the cause."""
    assert expected == words(text)


def test_words_of_a_huge_text_are_those_of_its_beginning():
    """A hostile text of megabytes costs no more than one of a few thousand characters."""
    assert len(words("a " * 1_000_000)) <= 4_001


@given(st.text(), st.sampled_from([str.upper, str.title, lambda text: text.replace(" ", "\r\n ")]))
def test_words_are_independent_of_case_and_wrapping(text, change):
    """ASCII text reads the same in any case and wrapped at any space."""
    text = text.encode("ascii", "ignore").decode()
    assert words(text) == words(change(text))


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (300.0, "greylisted, try again in 300 seconds"),
        (300.0, "please retry in 5 minutes"),
        (60.0, "Greylisted for 60 sec."),
        (7200.0, "Please wait 2h"),
        (3600.0, "try again after 1 hour"),
        (86_400.0, "try again in 999999 hours"),
        (0.0, "try again in 0 seconds"),
        (None, "try again in a while"),
        (None, "will be retried for 3 days"),
        (None, "retry 3 hosts"),
        (None, "in 300 seconds all is over"),
    ],
)
def test_asked_delay_reads_a_time_that_goes_with_another_try(expected, text):
    """Only a number with a unit, soon after a word for trying again, is a wish; a day is the most."""
    assert expected == asked_delay(words(text))


def test_phases_are_in_the_order_of_a_conversation():
    """What lies before "data" is decided by this order."""
    assert PHASES == ("connect", "ehlo", "auth", "mail", "rcpt", "data")
