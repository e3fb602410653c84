"""One failure for each refused recipient."""

from __future__ import annotations

import smtplib

import pytest

from retrykit.classification import ErrorClassifier, SmtpReply
from retrykit.errors import ConfigurationError

REFUSED = {
    "ada@example.org": (550, b"5.1.1 user unknown"),
    "bob@example.org": (452, b"4.2.2 mailbox full"),
}


@pytest.mark.parametrize("refused", [smtplib.SMTPRecipientsRefused(REFUSED), REFUSED], ids=["all", "some"])
def test_each_recipient_gets_a_failure_of_its_own(refused: object) -> None:
    """Whether the server has refused all of them or taken the message for the others."""
    failures = ErrorClassifier(provider="p").classify_recipients(refused)  # type: ignore[arg-type]
    assert {name: (str(f.error_class), f.outcome.value, f.provider) for name, f in failures.items()} == {
        "ada@example.org": ("invalid_recipient", "rejected", "p"),
        "bob@example.org": ("mailbox_full", "rejected", "p"),
    }


@pytest.mark.parametrize("refused", [{}, ValueError("x"), smtplib.SMTPRecipientsRefused({})])
def test_nobody_refused_gives_no_failures(refused: object) -> None:
    """An answer, not an error."""
    assert ErrorClassifier().classify_recipients(refused) == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "answer", ["550 5.1.1 user unknown", b"550 5.1.1 user unknown", SmtpReply(550, "5.1.1 user unknown")]
)
def test_answers_are_taken_as_replies_and_as_text(answer: object) -> None:
    """Whoever kept the reply whole need not take it apart."""
    failures = ErrorClassifier().classify_recipients({"ada@example.org": answer})
    assert str(failures["ada@example.org"].error_class) == "invalid_recipient"


@pytest.mark.parametrize("refused", [None, 5, [("ada@example.org", (550, b"no"))]])
def test_what_is_no_refusal_is_refused(refused: object) -> None:
    """An empty answer would read as "nobody was refused"."""
    with pytest.raises(ConfigurationError, match=r"refused is a .*; allowed are SMTPRecipientsRefused and a mapping"):
        ErrorClassifier().classify_recipients(refused)  # type: ignore[arg-type]
