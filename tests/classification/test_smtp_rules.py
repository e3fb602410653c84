"""What SMTP replies mean."""

from __future__ import annotations

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit.classification import ErrorClassifier, SmtpReply
from retrykit.classification.smtp import PHASES
from retrykit.classification.smtp_rules import SMTP_RULES
from retrykit.failure import ErrorGroup, Outcome

CLASSIFIER = ErrorClassifier()


def name_of(reply):
    return str(CLASSIFIER.classify(reply).error_class)


@pytest.mark.parametrize(
    ("expected", "reply"),
    [
        # rates
        ("provider_throttled", "421 Too many connections from your network"),
        ("provider_throttled", "421 4.7.0 come back another day"),
        ("provider_throttled", "450 4.2.1 this inbox gets mail too quickly"),
        ("provider_throttled", "452 4.5.3 Too many recipients at a time"),
        ("provider_throttled", "552 too many recipients in this transaction"),
        ("provider_throttled", "550 5.1.1 you have hit your rate limit"),
        ("quota_exceeded", "550 5.4.5 Daily user sending limit reached"),
        ("quota_exceeded", "554 5.2.2 your submission quota is used up"),
        # the provider, for now
        ("provider_unavailable", "421 4.3.2 Server shutting down"),
        ("provider_unavailable", "421 closing channel"),
        ("provider_unavailable", "451 4.3.0 local problem"),
        ("provider_unavailable", "451 Internal error, try again later"),
        ("network_timeout", "451 upstream timed out"),
        ("connection_error", "450 connection lost to the backend"),
        ("connection_error", "421 4.4.2 bye"),
        ("dns_failure", "451 4.4.3 directory lookup failed"),
        ("dns_failure", "450 Host not found, please try again"),
        ("dns_failure", "554 DNS timeout for example.net"),
        # the mailbox, for now
        ("greylisted", "450 4.7.1 Greylisting in action, see you in a bit"),
        ("greylisted", "451 4.7.1 hello stranger"),
        ("mailbox_full", "452 4.2.2 The inbox is over quota"),
        ("mailbox_full", "552 5.2.2 The inbox is over quota"),
        ("mailbox_full", "550 5.1.1 mailbox full"),
        ("mailbox_full", "554 Disk quota exceeded"),
        ("mailbox_full", "422 no room"),
        ("soft_bounce", "450 mailbox unavailable"),
        ("soft_bounce", "450 4.1.1 user unknown"),
        ("soft_bounce", "451 unknown user"),
        ("soft_bounce", "550 account temporarily disabled"),
        ("soft_bounce", "452 refused by policy of the recipient"),
        # the recipient
        ("invalid_recipient", "550 5.1.1 user unknown"),
        ("invalid_recipient", "550 5.7.1 No such user here"),
        ("invalid_recipient", "550-5.1.1 The account you wrote to\n550 5.1.1 does not exist"),
        ("invalid_recipient", "550 That mailbox does not exist"),
        ("invalid_recipient", "550 5.2.1 This account has been disabled"),
        ("invalid_recipient", "550 5.4.1 <ada@example.org>: Recipient address rejected: Access denied here"),
        ("invalid_recipient", "551 5.1.6 moved"),
        ("invalid_domain", "550 5.1.2 no such host"),
        ("invalid_domain", "550 Domain not found"),
        ("invalid_domain", "556 sorry"),
        ("invalid_domain", "521 5.3.2 this host does not accept mail"),
        ("invalid_domain", "550 5.1.10 null MX"),
        # the content
        ("content_rejected", "554 5.7.1 Your message looks like spam"),
        ("content_rejected", "554 5.7.1 <ada@example.org>: Recipient address rejected: spam"),
        ("content_rejected", "552 5.3.4 Message too big"),
        ("content_rejected", "552 message size exceeds the limit"),
        ("content_rejected", "550 5.7.1 From: header is missing"),
        ("content_rejected", "554 5.6.1 unsupported media"),
        ("content_rejected", "550 attachments of this kind are not for us"),
        ("policy_violation", "550 5.7.1 Delivery not for you"),
        ("policy_violation", "554 5.7.0 Local policy"),
        ("policy_violation", "550 Access is denied to you"),
        # our standing
        ("provider_misconfigured", "550 5.7.1 Relaying is denied"),
        ("provider_misconfigured", "554 5.7.1 relay access denied"),
        ("provider_misconfigured", "535 5.7.8 bad login"),
        ("provider_misconfigured", "535 no such user"),
        ("provider_misconfigured", "530 Must issue STARTTLS first"),
        ("provider_misconfigured", "550 5.7.26 message lacks authentication"),
        ("provider_misconfigured", "421 4.7.26 rate limited because of missing SPF and DKIM"),
        ("provider_misconfigured", "550 5.1.8 Sender address rejected: Domain not found"),
        ("provider_misconfigured", "450 4.1.8 Sender address rejected: Domain not found"),
        ("provider_misconfigured", "550 the sender does not exist"),
        ("provider_misconfigured", "553 sender account disabled"),
        ("provider_misconfigured", "550 no PTR record for your address"),
        ("provider_misconfigured", "550 5.1.0 address refused"),
        ("reputation_blocked", "554 5.7.1 Client host blocked using bl.example.net"),
        ("reputation_blocked", "550 192.0.2.1 is listed at bl.example.net"),
        ("reputation_blocked", "550 5.7.606 banned"),
        ("reputation_blocked", "554 your IP was refused"),
        ("provider_throttled", "421 4.7.1 poor reputation, later perhaps"),
        # our own protocol errors
        ("internal_error", "503 bad sequence of commands"),
        ("internal_error", "501 5.5.4 what was that"),
        # nobody knows
        ("unknown", "550 no"),
        ("unknown", "550 Requested action not taken"),
        ("unknown", "550 5.0.0 no"),
        ("unknown", "554 Transaction failed"),
        ("unknown", "554 5.4.6 routing loop"),
        ("unknown", "550 try again later"),
    ],
)
def test_reply_gives_the_class_that_its_words_and_codes_say(expected, reply):
    """Typical replies of each class, with the traps that codes and words set."""
    assert expected == name_of(SmtpReply.parse(reply))


@pytest.mark.parametrize(
    ("expected", "code", "phase"),
    [
        ("provider_unavailable", 421, "connect"),
        ("reputation_blocked", 554, "connect"),
        ("reputation_blocked", 550, "ehlo"),
        ("provider_unavailable", 454, "auth"),
        ("provider_misconfigured", 550, "auth"),
        ("provider_unavailable", 450, "mail"),
        ("provider_misconfigured", 550, "mail"),
        ("soft_bounce", 451, "rcpt"),
        ("soft_bounce", 450, None),
        ("unknown", 550, "rcpt"),
        ("invalid_recipient", 551, "rcpt"),
        ("invalid_recipient", 553, "rcpt"),
        ("mailbox_full", 552, "rcpt"),
        ("soft_bounce", 452, "data"),
        ("content_rejected", 554, "data"),
        ("provider_unavailable", 451, None),
        ("unknown", 550, None),
        ("unknown", 551, None),
        ("unknown", 552, None),
        ("unknown", 553, None),
        ("unknown", 250, "data"),
    ],
)
def test_bare_reply_is_read_by_its_code_and_phase(expected, code, phase):
    """Without words the phase says who is meant; a bare 550 is nobody's."""
    assert expected == name_of(SmtpReply(code, "no", phase=phase))


def test_mailbox_unavailable_ends_the_recipient_where_it_answers_rcpt_or_nobody_knows():
    """The text of RFC 5321 for 550 speaks of the mailbox, unless it answers something else than RCPT."""
    text = "Requested action not taken: mailbox unavailable"
    assert [name_of(SmtpReply(550, text, phase=phase)) for phase in (None, "rcpt", "data")] == [
        "invalid_recipient",
        "invalid_recipient",
        "content_rejected",
    ]


@pytest.mark.parametrize(
    ("expected", "reply"),
    [
        ("smtp.spectrum.1310", "550 5.1.0 the sender was rejected. AUP#In-1310"),
        ("smtp.orange.416", "550 5.1.1 invalid. OFR_416 [416]"),
        ("smtp.orange.104", "421 too many connections OFR004_104 [104]"),
        ("smtp.godaddy.ib504", "554 no. IB504"),
        ("smtp.cox.cxthrt", "421 no. CXTHRT"),
        ("smtp.cox.ipbl", "554 no. IPBL0101"),
        ("smtp.yahoo.tss04", "421 4.7.0 [TSS04] no"),
        ("smtp.netease.mi:spb", "550 MI:SPB 163 smtp1"),
        ("smtp.i.ua.4", "550 no; see http://mail.i.ua/err/4/"),
        ("smtp.5xx", "550 IB999 nobody knows this one"),
    ],
)
def test_code_of_a_mailbox_provider_outranks_words_and_codes(expected, reply):
    """A code that names itself is believed first; one that is not in the table says nothing."""
    assert expected == CLASSIFIER.classify(SmtpReply.parse(reply)).rule


def test_code_of_a_mailbox_provider_ends_no_recipient_in_a_4xx():
    """A reply that asks for another try does not make a recipient dead, whatever code its text carries."""
    assert name_of(SmtpReply.parse("421 OFR_416 [416]")) == "provider_unavailable"


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("invalid_recipient", "no such user"),
        ("mailbox_full", "mailbox is full"),
        ("network_timeout", "connection timed out"),
        ("provider_unavailable", "delivery is delayed"),
        ("soft_bounce", "4.2.1 hm"),
        ("unknown", "sorry"),
        ("unknown", ""),
    ],
)
def test_text_without_code_is_read_by_its_words(expected, text):
    """Bounce texts that lost the code still say what happened."""
    assert expected == name_of(SmtpReply(None, text))


@pytest.mark.parametrize("phase", ["connect", "ehlo", "auth", "mail"])
@pytest.mark.parametrize("text", ["5.1.1 user unknown", "5.2.2 mailbox full", "domain not found", "4.2.1 hm"])
@pytest.mark.parametrize("code", [450, 550])
def test_reply_before_rcpt_never_speaks_of_the_recipient(code, text, phase):
    """Before RCPT the server does not know the recipient: "unknown user" after MAIL is the sender."""
    group = CLASSIFIER.classify(SmtpReply(code, text, phase=phase)).group
    assert group not in (ErrorGroup.PERMANENT_RECIPIENT, ErrorGroup.TEMPORARY_MAILBOX)


NEUTRAL = st.text(st.sampled_from("bcdfghjklmnpqrstvwxz ._-()<>@/:"), max_size=80)
"""Texts without vowels and numbers: they hold no word that a rule could know, and no enhanced code."""


@given(st.integers(500, 599).filter(lambda code: code != 556), NEUTRAL)
def test_bare_5xx_never_ends_a_recipient(code, text):
    """A refusal whose words nobody knows is not "bounced"; only 556 is defined to mean the domain (RFC 7504)."""
    assert CLASSIFIER.classify(SmtpReply(code, text)).group is not ErrorGroup.PERMANENT_RECIPIENT


PIECES = st.sampled_from(
    "user unknown mailbox full sender rejected spam 5.1.1 5.7.1 4.2.2 relay denied does not exist quota domain your ip "
    "try again later in 300 seconds ada@example.org https://example.org/blocked".split()
)


@given(st.integers(400, 499), st.lists(PIECES | st.text(max_size=8), max_size=12), st.sampled_from([None, *PHASES]))
def test_4xx_never_ends_a_recipient(code, pieces, phase):
    """A 4yz reply asks for another try, whatever its words name as the cause."""
    reply = SmtpReply(code, " ".join(pieces), enhanced_code="4.0.0", phase=phase)
    assert CLASSIFIER.classify(reply).group is not ErrorGroup.PERMANENT_RECIPIENT


@given(
    st.none() | st.integers(200, 599),
    st.text() | st.binary() | st.lists(PIECES, max_size=12).map(" ".join),
    st.none() | st.from_regex(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}", fullmatch=True),
    st.sampled_from([None, *PHASES]),
)
def test_reply_of_any_kind_gets_one_and_the_same_answer(code, text, enhanced, phase):
    """Classification is total, deterministic, and names its rule."""
    reply = SmtpReply(code, text, enhanced_code=enhanced, phase=phase)
    failure = CLASSIFIER.classify(reply)
    assert failure == ErrorClassifier().classify(reply)
    assert failure.rule


@given(st.integers(400, 599), st.lists(PIECES, max_size=12))
def test_reply_answer_is_independent_of_case_space_and_wrapping(code, pieces):
    """The same words in capitals and on several lines are the same words."""
    plain = SmtpReply(code, "- " + " ".join(pieces))
    wrapped = SmtpReply(code, "-   " + "\r\n ".join(pieces).upper())
    assert CLASSIFIER.classify(plain).rule == CLASSIFIER.classify(wrapped).rule


def test_rules_have_names_of_their_own_and_sources():
    """A rule's name leads to one row, and each row says where it comes from."""
    assert [name for name, count in collections.Counter(r.name for r in CLASSIFIER.rules).items() if count > 1] == []
    assert [rule.name for rule in SMTP_RULES if not rule.source or not rule.name.startswith("smtp.")] == []


@pytest.mark.parametrize(
    ("expected", "reply"),
    [
        ("smtp.421.throttled", SmtpReply(421, "4.7.0 no")),
        ("smtp.enhanced.5.1.1", SmtpReply(550, "5.1.1 no")),
        ("smtp.words.user_unknown", SmtpReply(550, "no such user")),
        ("smtp.words.spam.4xx", SmtpReply(451, "spam")),
        ("smtp.5xx", SmtpReply(550, "no")),
        ("unknown", SmtpReply(250, "fine")),
    ],
)
def test_reply_answer_names_its_rule(expected, reply):
    """Names say which table decided, and why."""
    assert expected == CLASSIFIER.classify(reply).rule


@pytest.mark.parametrize(
    ("expected", "code", "text", "phase", "stage"),
    [
        (Outcome.REJECTED, 550, "no", None, "send"),
        (Outcome.REJECTED, 550, "no", None, None),
        (Outcome.REJECTED, 421, "no", "connect", "send"),
        (Outcome.REJECTED, None, "user unknown", None, "send"),
        (Outcome.REJECTED, None, "5.0.0 no", None, "send"),
        (Outcome.UNKNOWN, None, "no", None, "send"),
        (Outcome.UNKNOWN, 250, "fine", "data", "send"),
        (Outcome.NOT_SENT, 250, "fine", "ehlo", "send"),
        (Outcome.NOT_SENT, 550, "no", None, "render"),
        (Outcome.NOT_SENT, 550, "no", None, "charge"),
    ],
)
def test_reply_outcome_is_rejected_where_it_refuses_in_send(expected, code, text, phase, stage):
    """A refusal in send is a no; what is no refusal leaves the outcome open."""
    assert expected is CLASSIFIER.classify(SmtpReply(code, text, phase=phase), stage=stage).outcome


@pytest.mark.parametrize(
    ("expected", "code", "text"),
    [
        (300.0, 451, "greylisted, try again in 300 seconds"),
        (300.0, 421, "4.7.0 retry in 5 minutes"),
        (None, 451, "try again later"),
        (None, 550, "try again in 300 seconds"),
    ],
)
def test_reply_retry_after_is_read_from_4xx_texts(expected, code, text):
    """A time to wait counts where another try is welcome."""
    assert expected == CLASSIFIER.classify(SmtpReply(code, text)).retry_after


@pytest.mark.parametrize(
    ("expected", "reply"),
    [
        ("provider_misconfigured", "550 5.1.1 <me@shop.example>: Sender address rejected: User unknown"),
        ("provider_misconfigured", "550 5.1.1 Sender verify failed"),
        ("provider_misconfigured", "550 5.1.2 The sender's domain does not exist"),
        ("provider_misconfigured", "553 5.1.3 <x>: Sender address rejected: malformed"),
        ("provider_misconfigured", "550 Your domain does not exist"),
        ("provider_misconfigured", "550 MAIL FROM user unknown"),
        ("provider_misconfigured", "550 5.7.27 The sender address has null MX"),
        ("provider_misconfigured", "550 5.1.1 relay denied"),
        ("provider_throttled", "550 5.1.1 too many unknown users from your IP"),
        ("soft_bounce", "550 5.1.1 mailbox temporarily unavailable"),
        ("greylisted", "550 5.1.1 Greylisted, come again"),
        ("dns_failure", "550 5.1.2 temporary DNS failure"),
        ("unknown", "251 user not local; will forward"),
        ("unknown", "550 The recipient does not accept mail from you"),
        ("policy_violation", "550 5.2.1 mailbox disabled for sending"),
        ("invalid_recipient", "550 Rejected by Mimecast: Invalid Recipient"),
        ("invalid_recipient", "host mx.spamtitan.com said: 550 No such mailbox"),
        ("invalid_recipient", "550 greylist.example.org: mailbox not found"),
        ("invalid_recipient", "550 No such user at tls.example.com"),
    ],
)
def test_living_recipient_is_not_ended_and_a_dead_one_is_not_missed(expected, reply):
    """What is said of the sender, or for now, outranks a code of the recipient's; names of hosts say nothing."""
    assert expected == name_of(SmtpReply.parse(reply))
