"""What exceptions mean."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import errno
import http.client
import json
import multiprocessing
import smtplib
import socket
import sqlite3
import ssl
import subprocess
import urllib.error

import pytest

from retrykit.classification import ErrorClassifier
from retrykit.classification.exceptions import phase_of, text_of
from retrykit.errors import (
    BreakerOpenError,
    CallRefusedError,
    ConfigurationError,
    InvalidPayloadError,
    PayloadTooLargeError,
    StoreCorruptError,
    StoreUnavailableError,
)
from retrykit.failure import Outcome

CLASSIFIER = ErrorClassifier()
NOT_SENT, REJECTED, UNKNOWN = Outcome.NOT_SENT, Outcome.REJECTED, Outcome.UNKNOWN


def foreign(name, *bases):
    """Make an exception class as a library that is not installed would have it."""
    module, _, cls = name.rpartition(".")
    return type(cls, bases or (Exception,), {"__module__": module})


def sqlite_error(code):
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = code
    return error


def ssl_error(reason):
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


HTTPX_TIMEOUT = foreign("httpx.TimeoutException")
REQUESTS_ERROR = foreign("requests.exceptions.RequestException", OSError)
REQUESTS_CONNECTION = foreign("requests.exceptions.ConnectionError", REQUESTS_ERROR)
REQUESTS_TIMEOUT = foreign("requests.exceptions.Timeout", REQUESTS_ERROR)
URLLIB3_TIMEOUT = foreign("urllib3.exceptions.TimeoutError")
URLLIB3_CONNECT = foreign("urllib3.exceptions.ConnectTimeoutError", URLLIB3_TIMEOUT)


@pytest.mark.parametrize(
    ("expected", "outcome", "error"),
    [
        ("connection_error", NOT_SENT, ConnectionRefusedError(111, "refused")),
        ("connection_error", UNKNOWN, ConnectionResetError(104, "reset")),
        ("connection_error", UNKNOWN, BrokenPipeError(32, "pipe")),
        ("connection_error", UNKNOWN, http.client.RemoteDisconnected("gone")),
        ("connection_error", UNKNOWN, asyncio.IncompleteReadError(b"", 3)),
        ("connection_error", UNKNOWN, OSError(errno.EHOSTUNREACH, "no route")),
        ("connection_error", UNKNOWN, ssl.SSLEOFError("eof")),
        ("provider_misconfigured", NOT_SENT, ssl_error("SSLV3_ALERT_HANDSHAKE_FAILURE")),
        ("provider_misconfigured", UNKNOWN, ssl_error("WRONG_VERSION_NUMBER")),
        ("connection_error", UNKNOWN, ssl_error("DECRYPTION_FAILED_OR_BAD_RECORD_MAC")),
        ("resource_contention", NOT_SENT, OSError(errno.EADDRNOTAVAIL, "no port")),
        ("resource_contention", UNKNOWN, OSError(errno.ENOMEM, "memory")),
        ("resource_contention", UNKNOWN, asyncio.QueueFull()),
        ("connection_error", UNKNOWN, http.client.IncompleteRead(b"")),
        ("connection_error", UNKNOWN, http.client.BadStatusLine("x")),
        ("internal_error", NOT_SENT, http.client.CannotSendRequest()),
        ("internal_error", UNKNOWN, http.client.ResponseNotReady()),
        ("connection_error", NOT_SENT, urllib.error.URLError(ConnectionRefusedError())),
        ("dns_failure", NOT_SENT, urllib.error.URLError(socket.gaierror(-2, "unknown"))),
        ("connection_error", UNKNOWN, urllib.error.URLError("something")),
        ("internal_error", NOT_SENT, urllib.error.URLError("unknown url type: x")),
        ("network_timeout", UNKNOWN, subprocess.TimeoutExpired("x", 1)),
        ("network_timeout", UNKNOWN, multiprocessing.TimeoutError()),
        ("resource_contention", UNKNOWN, concurrent.futures.BrokenExecutor()),
        ("internal_error", UNKNOWN, json.JSONDecodeError("x", "", 0)),
        ("internal_error", UNKNOWN, UnicodeDecodeError("ascii", b"x", 0, 1, "x")),
        ("internal_error", UNKNOWN, RecursionError()),
        ("internal_error", UNKNOWN, ZeroDivisionError()),
        ("network_timeout", UNKNOWN, smtplib.SMTPServerDisconnected("Connection unexpectedly closed: timed out")),
        ("provider_misconfigured", NOT_SENT, smtplib.SMTPException("No suitable authentication method found.")),
        ("network_timeout", UNKNOWN, TimeoutError("timed out")),
        ("network_timeout", UNKNOWN, socket.timeout("timed out")),  # noqa: UP041 - the old name
        ("dns_failure", NOT_SENT, socket.gaierror(-2, "unknown name")),
        ("dns_failure", NOT_SENT, socket.herror(1, "unknown host")),
        ("provider_misconfigured", NOT_SENT, ssl.SSLCertVerificationError("self signed")),
        ("connection_error", UNKNOWN, smtplib.SMTPServerDisconnected("Connection unexpectedly closed")),
        ("connection_error", NOT_SENT, smtplib.SMTPServerDisconnected("please run connect() first")),
        ("provider_misconfigured", NOT_SENT, smtplib.SMTPNotSupportedError("no AUTH")),
        ("unknown", UNKNOWN, smtplib.SMTPException("hm")),
        ("resource_contention", UNKNOWN, MemoryError()),
        ("resource_contention", UNKNOWN, OSError(errno.EMFILE, "too many files")),
        ("resource_contention", UNKNOWN, sqlite_error(5)),
        ("resource_contention", UNKNOWN, sqlite_error(517)),
        ("resource_contention", UNKNOWN, sqlite_error(6)),
        ("resource_contention", UNKNOWN, sqlite_error(10 | 3 << 8)),
        ("resource_contention", UNKNOWN, sqlite_error(13)),
        ("resource_contention", UNKNOWN, sqlite_error(14)),
        ("provider_misconfigured", REJECTED, sqlite_error(8)),
        ("provider_misconfigured", REJECTED, sqlite_error(26)),
        ("internal_error", UNKNOWN, sqlite_error("5")),
        ("internal_error", UNKNOWN, sqlite_error(1)),
        ("internal_error", UNKNOWN, sqlite3.OperationalError("no such table")),
        ("internal_error", UNKNOWN, sqlite3.IntegrityError("unique")),
        ("resource_contention", UNKNOWN, StoreUnavailableError("locked")),
        ("internal_error", UNKNOWN, StoreCorruptError("torn")),
        ("provider_unavailable", NOT_SENT, BreakerOpenError("ses", 5.0)),
        ("provider_unavailable", NOT_SENT, CallRefusedError("not now")),
        ("internal_error", UNKNOWN, ConfigurationError("wrong")),
        ("invalid_payload", UNKNOWN, InvalidPayloadError("not JSON")),
        ("invalid_payload", UNKNOWN, PayloadTooLargeError(2, 1)),
        ("internal_error", UNKNOWN, FileNotFoundError(2, "gone")),
        ("internal_error", UNKNOWN, PermissionError(13, "no")),
        ("internal_error", UNKNOWN, TypeError("x")),
        ("internal_error", UNKNOWN, UnboundLocalError("x")),
        ("internal_error", UNKNOWN, ModuleNotFoundError("x")),
        ("unknown", UNKNOWN, OSError("something")),
        ("unknown", UNKNOWN, OSError(errno.EIO, "disk")),
        ("unknown", UNKNOWN, ValueError("x")),
        ("unknown", UNKNOWN, KeyError("x")),
        ("unknown", UNKNOWN, RuntimeError("x")),
        ("unknown", UNKNOWN, foreign("shop.TimeoutError")("x")),
        ("connection_error", NOT_SENT, foreign("httpx.ConnectError", foreign("httpx.NetworkError"))("x")),
        ("network_timeout", NOT_SENT, foreign("httpx.ConnectTimeout", HTTPX_TIMEOUT)("x")),
        ("network_timeout", UNKNOWN, foreign("httpx.ReadTimeout", HTTPX_TIMEOUT)("x")),
        ("resource_contention", NOT_SENT, foreign("httpx.PoolTimeout", HTTPX_TIMEOUT)("x")),
        (
            "network_timeout",
            NOT_SENT,
            foreign("requests.exceptions.ConnectTimeout", REQUESTS_CONNECTION, REQUESTS_TIMEOUT)("x"),
        ),
        ("network_timeout", UNKNOWN, foreign("requests.exceptions.ReadTimeout", REQUESTS_TIMEOUT)("x")),
        ("connection_error", UNKNOWN, REQUESTS_CONNECTION("x")),
        ("unknown", UNKNOWN, REQUESTS_ERROR("x")),
        ("connection_error", NOT_SENT, foreign("urllib3.exceptions.NewConnectionError", URLLIB3_CONNECT)("x")),
        ("network_timeout", NOT_SENT, URLLIB3_CONNECT("x")),
        ("network_timeout", UNKNOWN, foreign("urllib3.exceptions.ReadTimeoutError", URLLIB3_TIMEOUT)("x")),
    ],
)
def test_exception_in_send_gives_class_and_outcome_of_its_nearest_known_type(expected, outcome, error):
    """The specific class is met before its base; what may have been written leaves the outcome open."""
    failure = CLASSIFIER.classify(error, stage="send")
    assert (expected, outcome) == (str(failure.error_class), failure.outcome)


def test_sqlite_file_locked_by_another_connection_is_resource_contention(tmp_path):
    """The real error of a locked database carries the code that is looked for."""
    with contextlib.ExitStack() as stack:
        one, other = (
            stack.enter_context(contextlib.closing(sqlite3.connect(tmp_path / "a.db", timeout=0))) for _ in range(2)
        )
        one.execute("begin exclusive")
        with pytest.raises(sqlite3.OperationalError) as info:
            other.execute("begin immediate")
    assert CLASSIFIER.classify(info.value).error_class == "resource_contention"


@pytest.mark.parametrize(
    ("expected", "name"), [("resource_contention", "nowhere/a.db"), ("provider_misconfigured", "text.db")]
)
def test_sqlite_file_that_is_none_is_known_by_its_code(tmp_path, expected, name):
    """A folder that is not there may come back; what is no database will not become one. Both are the same class."""
    (tmp_path / "text.db").write_text("no database at all, but long enough to be looked at" * 3)
    with pytest.raises(sqlite3.DatabaseError) as info, contextlib.closing(sqlite3.connect(tmp_path / name)) as database:
        database.execute("select * from sqlite_master")
    assert CLASSIFIER.classify(info.value).error_class == expected


def test_sqlite_file_that_is_full_is_contention(tmp_path):
    """And one that may not be written is a matter of settings."""
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("create table a (b)")
        database.execute("pragma max_page_count = 1")
        with pytest.raises(sqlite3.OperationalError) as full:
            database.execute("insert into a values (?)", ["x" * 100_000])
        database.execute("pragma query_only = 1")
        with pytest.raises(sqlite3.OperationalError) as read_only:
            database.execute("insert into a values (1)")
    assert CLASSIFIER.classify(full.value).error_class == "resource_contention"
    assert CLASSIFIER.classify(read_only.value).error_class == "provider_misconfigured"


@pytest.mark.parametrize(
    "error", [ConnectionResetError(), TimeoutError(), ValueError("x"), smtplib.SMTPDataError(554, b"spam")]
)
@pytest.mark.parametrize("stage", ["parse", "validate", "render", "charge"])
def test_exception_in_another_stage_than_send_has_sent_nothing(error, stage):
    """Before send nothing can have happened."""
    assert NOT_SENT is CLASSIFIER.classify(error, stage=stage).outcome


@pytest.mark.parametrize("error", [ConnectionResetError(), TimeoutError(), ValueError("x")])
def test_exception_without_a_stage_may_have_sent(error):
    """Where nobody says, the careful answer is given."""
    assert UNKNOWN is CLASSIFIER.classify(error).outcome


@pytest.mark.parametrize(
    ("expected", "phase"),
    [
        (NOT_SENT, "connect"),
        (NOT_SENT, "ehlo"),
        (NOT_SENT, "auth"),
        (NOT_SENT, "mail"),
        (NOT_SENT, "rcpt"),
        (UNKNOWN, "data"),
        (UNKNOWN, "quit"),
        (UNKNOWN, 3),
        (UNKNOWN, None),
    ],
)
@pytest.mark.parametrize("error", [TimeoutError, smtplib.SMTPServerDisconnected, ValueError])
def test_exception_that_says_its_phase_has_sent_nothing_before_data(expected, phase, error):
    """A sender that knows how far it came may say so in `smtp_phase`."""
    failed = error("x")
    failed.smtp_phase = phase
    assert expected is CLASSIFIER.classify(failed, stage="send").outcome


@pytest.mark.parametrize(
    ("expected", "enhanced", "error"),
    [
        ("provider_unavailable", None, smtplib.SMTPConnectError(421, b"closing")),
        ("reputation_blocked", None, smtplib.SMTPConnectError(554, b"no")),
        ("reputation_blocked", None, smtplib.SMTPHeloError(550, b"no")),
        ("provider_misconfigured", "5.7.8", smtplib.SMTPAuthenticationError(535, b"5.7.8 wrong")),
        ("provider_misconfigured", None, smtplib.SMTPSenderRefused(550, b"user unknown", "ada@example.org")),
        ("content_rejected", None, smtplib.SMTPDataError(554, b"no")),
        ("invalid_recipient", "5.1.1", smtplib.SMTPResponseException(550, "5.1.1 user unknown")),
    ],
)
def test_smtplib_exception_is_read_as_the_reply_it_carries(expected, enhanced, error):
    """The type gives the phase, the reply the rest; the provider said no."""
    failure = CLASSIFIER.classify(error, stage="send")
    assert (expected, REJECTED, str(error.smtp_code), enhanced) == (
        str(failure.error_class),
        failure.outcome,
        failure.error_code,
        failure.enhanced_code,
    )


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (NOT_SENT, smtplib.SMTPConnectError(-1, b"HTTP/1.1 400 Bad Request")),
        (UNKNOWN, smtplib.SMTPDataError(-1, b"???")),
        (UNKNOWN, smtplib.SMTPDataError(None, None)),
        (UNKNOWN, smtplib.SMTPDataError("550", 17)),
    ],
)
def test_smtplib_exception_without_a_code_is_unknown(outcome, error):
    """What is not SMTP is not guessed; smtplib gives -1 as its code."""
    failure = CLASSIFIER.classify(error, stage="send")
    assert ("unknown", outcome, f"smtplib.{type(error).__name__}") == (
        str(failure.error_class),
        failure.outcome,
        failure.error_code,
    )


def test_smtplib_exception_that_says_its_phase_is_read_so():
    """A sender may know the phase better than the type."""
    error = smtplib.SMTPResponseException(554, b"no")
    error.smtp_phase = "connect"
    assert CLASSIFIER.classify(error).error_class == "reputation_blocked"


@pytest.mark.parametrize(
    ("expected", "replies"),
    [
        ("invalid_recipient", [(550, b"5.1.1 no such user")]),
        ("mailbox_full", [(452, b"4.2.2 full")]),
        ("mailbox_full", [(550, b"5.1.1 no such user"), (452, b"4.2.2 full"), (421, b"bye")]),
        ("content_rejected", [(554, b"spam"), (550, b"5.1.1 no such user")]),
        ("invalid_recipient", ["nonsense", (550,), (550, b"5.1.1 no such user")]),
    ],
)
def test_recipients_refused_gives_the_first_answer_that_may_heal_or_the_first(expected, replies):
    """Of several recipients' answers one that may heal is worth another try."""
    refused = {f"user{number}@example.org": reply for number, reply in enumerate(replies)}
    failure = CLASSIFIER.classify(smtplib.SMTPRecipientsRefused(refused), stage="send")
    assert (expected, REJECTED) == (str(failure.error_class), failure.outcome)
    assert "example.org" not in failure.error_message


@pytest.mark.parametrize("recipients", [{}, {"a": None}])
def test_recipients_refused_without_answers_is_unknown(recipients):
    """Where nothing can be read nothing is guessed."""
    failure = CLASSIFIER.classify(smtplib.SMTPRecipientsRefused(recipients))
    assert (str(failure.error_class), failure.error_code) == ("unknown", "smtplib.SMTPRecipientsRefused")


def test_recipients_refused_with_something_else_than_a_mapping_is_unknown():
    """A list is no mapping of answers."""
    assert CLASSIFIER.classify(smtplib.SMTPRecipientsRefused(["x"])).error_class == "unknown"


class OddError(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    @property
    def smtp_phase(self):
        raise RuntimeError("no phase")


def test_exception_that_cannot_be_read_is_classified_all_the_same():
    """An exception whose text and attributes raise gets an answer."""
    assert None is phase_of(OddError())
    assert text_of(OddError()) == "<OddError whose message cannot be read>"
    assert CLASSIFIER.classify(OddError()).error_class == "unknown"


@pytest.mark.parametrize(
    ("said", "given", "expected"),
    [
        ("ses", None, "ses"),
        ("ses", "backup", "ses"),
        (None, "backup", "backup"),
        (None, None, "primary"),
        (7, None, "primary"),
    ],
)
def test_provider_on_the_exception_stands_before_the_classifiers_own(
    said: object, given: str | None, expected: str
) -> None:
    """A sender that knows who answered writes it on the exception; nobody knows better."""
    error = ConnectionResetError("gone")
    error.provider = said  # type: ignore[attr-defined]
    assert expected == ErrorClassifier(provider="primary").classify(error, provider=given).provider


def test_classify_refused_call_carries_its_wait():
    """As a failure of another stage, or of who wrapped it."""
    wrapped = LookupError("no template")
    wrapped.__cause__ = BreakerOpenError("templates", 5.0)
    assert CLASSIFIER.classify(wrapped, stage="render").retry_after == 5.0
    assert CLASSIFIER.classify(BreakerOpenError("templates", None)).retry_after is None
