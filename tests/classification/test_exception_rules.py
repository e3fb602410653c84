"""What the exceptions of libraries mean that are not installed: their names and bases are enough.

`tests/libraries` has the same against the libraries themselves.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from types import SimpleNamespace

import pytest

from retrykit.classification import ErrorClassifier
from retrykit.classification.exception_facts import is_caused_by
from retrykit.classification.exception_rules import EXCEPTION_RULES
from retrykit.classification.exceptions import REPLY_READERS, WRAPPERS
from retrykit.failure import Outcome
from tests.classification.foreign import KNOWN, foreign

CLASSIFIER = ErrorClassifier()
NOT_SENT, REJECTED, UNKNOWN = Outcome.NOT_SENT, Outcome.REJECTED, Outcome.UNKNOWN

# Bases as the libraries have them; the traps are in who derives from whom.
foreign("requests.exceptions.RequestException", OSError)
foreign("requests.exceptions.ConnectionError", "requests.exceptions.RequestException")
foreign("requests.exceptions.ProxyError", "requests.exceptions.ConnectionError")
foreign("requests.exceptions.SSLError", "requests.exceptions.ConnectionError")
foreign("requests.exceptions.RetryError", "requests.exceptions.RequestException")
foreign("requests.exceptions.InvalidURL", "requests.exceptions.RequestException", ValueError)
foreign("requests.exceptions.InvalidSchema", "requests.exceptions.RequestException", ValueError)
foreign("requests.exceptions.InvalidJSONError", "requests.exceptions.RequestException")
foreign("requests.exceptions.JSONDecodeError", "requests.exceptions.InvalidJSONError")
foreign("urllib3.exceptions.HTTPError")
foreign("urllib3.exceptions.TimeoutError", "urllib3.exceptions.HTTPError")
foreign("urllib3.exceptions.ConnectTimeoutError", "urllib3.exceptions.TimeoutError")
foreign("urllib3.exceptions.NewConnectionError", "urllib3.exceptions.ConnectTimeoutError")
foreign("urllib3.exceptions.NameResolutionError", "urllib3.exceptions.NewConnectionError")
foreign("urllib3.exceptions.MaxRetryError", "urllib3.exceptions.HTTPError")
foreign("urllib3.exceptions.ProtocolError", "urllib3.exceptions.HTTPError")
foreign("urllib3.exceptions.SSLError", "urllib3.exceptions.HTTPError")
foreign("urllib3.exceptions.ProxyError", "urllib3.exceptions.HTTPError")
foreign("urllib3.exceptions.ResponseError", "urllib3.exceptions.HTTPError")
foreign("httpx.NetworkError")
foreign("httpx.ConnectError", "httpx.NetworkError")
foreign("httpx.InvalidURL")
foreign("httpcore.NetworkError")
foreign("httpcore.ConnectError", "httpcore.NetworkError")
foreign("aiohttp.client_exceptions.ClientOSError", foreign("aiohttp.client_exceptions.ClientConnectionError"), OSError)
foreign("aiohttp.client_exceptions.ClientConnectorError", "aiohttp.client_exceptions.ClientOSError")
foreign(
    "aiohttp.client_exceptions.ClientConnectorCertificateError",
    "aiohttp.client_exceptions.ClientConnectorError",
    ssl.SSLCertVerificationError,
)
foreign("aiosmtplib.errors.SMTPException")
foreign("aiosmtplib.errors.SMTPConnectError", "aiosmtplib.errors.SMTPException", ConnectionError)
foreign("aiosmtplib.errors.SMTPTimeoutError", "aiosmtplib.errors.SMTPException", TimeoutError)
foreign(
    "aiosmtplib.errors.SMTPConnectTimeoutError",
    "aiosmtplib.errors.SMTPTimeoutError",
    "aiosmtplib.errors.SMTPConnectError",
)
foreign("redis.exceptions.ConnectionError")
foreign("redis.exceptions.AuthenticationError", "redis.exceptions.ConnectionError")
foreign("redis.exceptions.BusyLoadingError", "redis.exceptions.ConnectionError")
foreign("redis.exceptions.ResponseError")
foreign("redis.exceptions.ReadOnlyError", "redis.exceptions.ResponseError")
foreign("redis.exceptions.OutOfMemoryError", "redis.exceptions.ResponseError")
foreign("redis.exceptions.ClusterDownError", "redis.exceptions.ResponseError")
foreign("psycopg.Error")
foreign("psycopg.OperationalError", "psycopg.Error")
foreign("psycopg.InternalError", "psycopg.Error")
foreign("pymysql.err.MySQLError")
foreign("pymysql.err.OperationalError", "pymysql.err.MySQLError")
foreign("sqlalchemy.exc.SQLAlchemyError")
foreign("sqlalchemy.exc.StatementError", "sqlalchemy.exc.SQLAlchemyError")
foreign("sqlalchemy.exc.DBAPIError", "sqlalchemy.exc.StatementError")
foreign("sqlalchemy.exc.OperationalError", "sqlalchemy.exc.DBAPIError")
foreign("pika.exceptions.AMQPConnectionError")
foreign("grpc.RpcError")
foreign("cimpl.KafkaException")
foreign("dns.exception.DNSException")
foreign("dns.resolver.NXDOMAIN", "dns.exception.DNSException")
foreign("openai.APIConnectionError")
foreign("google.api_core.exceptions.RetryError", cause=property(lambda self: self.__cause__))


def made(name, *arguments, cause=None, **attributes):
    """Make an exception of a class of above."""
    error = KNOWN[name](*arguments)
    error.__cause__ = cause
    for attribute, value in attributes.items():
        setattr(error, attribute, value)
    return error


def stated(state, name="psycopg.OperationalError", attribute="sqlstate"):
    return made(name, "no", **{attribute: state})


def said(words):
    return made("psycopg.OperationalError", words, sqlstate=None)


def grpc(status, words="no"):
    return made("grpc.RpcError", words, code=lambda: SimpleNamespace(name=status))


def kafka(name, is_fatal=False, is_retriable=False):
    return made(
        "cimpl.KafkaException",
        SimpleNamespace(name=lambda: name, fatal=lambda: is_fatal, retriable=lambda: is_retriable),
    )


def not_found(rdtype):
    question = SimpleNamespace(question=[SimpleNamespace(rdtype=rdtype)])
    return made("dns.resolver.NXDOMAIN", "no", kwargs={"responses": {"example.org.": question}})


CERTIFICATE = ssl.SSLCertVerificationError("self signed")
REFUSED = made("urllib3.exceptions.NewConnectionError", "refused")


def gave_up(reason):
    return made("urllib3.exceptions.MaxRetryError", "gave up", reason=reason)


@pytest.mark.parametrize(
    ("expected", "outcome", "error"),
    [
        # requests and urllib3: what is an OSError or a TimeoutError need not be one of the network.
        ("internal_error", NOT_SENT, made("requests.exceptions.InvalidURL", "x")),
        ("internal_error", NOT_SENT, made("requests.exceptions.InvalidSchema", "x")),
        ("internal_error", UNKNOWN, made("requests.exceptions.JSONDecodeError", "x")),
        ("connection_error", NOT_SENT, made("requests.exceptions.ProxyError", "x")),
        ("provider_misconfigured", NOT_SENT, made("requests.exceptions.ProxyError", "Tunnel failed: 407 No")),
        ("connection_error", UNKNOWN, made("requests.exceptions.SSLError", "x")),
        ("connection_error", NOT_SENT, made("requests.exceptions.ConnectionError", gave_up(REFUSED))),
        ("connection_error", UNKNOWN, made("requests.exceptions.ConnectionError", gave_up("many"))),
        (
            "provider_misconfigured",
            NOT_SENT,
            made("requests.exceptions.SSLError", gave_up(made("urllib3.exceptions.SSLError", CERTIFICATE))),
        ),
        (
            "dns_failure",
            NOT_SENT,
            made("requests.exceptions.ConnectionError", gave_up(made("urllib3.exceptions.NameResolutionError", "x"))),
        ),
        (
            "connection_error",
            UNKNOWN,
            made(
                "requests.exceptions.ConnectionError", made("urllib3.exceptions.ProtocolError", "x", BrokenPipeError())
            ),
        ),
        ("network_timeout", NOT_SENT, gave_up(made("urllib3.exceptions.ConnectTimeoutError", "x"))),
        ("connection_error", NOT_SENT, REFUSED),
        ("provider_throttled", REJECTED, made("requests.exceptions.RetryError", "too many 429 error responses")),
        ("provider_unavailable", REJECTED, made("urllib3.exceptions.ResponseError", "too many 503 error responses")),
        ("provider_misconfigured", UNKNOWN, made("urllib3.exceptions.ResponseError", "too many redirects")),
        # httpx and aiohttp: why a connection failed is the cause.
        ("connection_error", NOT_SENT, made("httpx.ConnectError", "x")),
        ("connection_error", NOT_SENT, made("httpx.ConnectError", "x", cause=ConnectionResetError())),
        (
            "provider_misconfigured",
            NOT_SENT,
            made("httpx.ConnectError", "x", cause=made("httpcore.ConnectError", "x", cause=CERTIFICATE)),
        ),
        (
            "dns_failure",
            NOT_SENT,
            made("httpx.ConnectError", "x", cause=made("httpcore.ConnectError", socket.gaierror(-2, "x"))),
        ),
        ("internal_error", NOT_SENT, made("httpx.InvalidURL", "x")),
        ("connection_error", NOT_SENT, made("aiohttp.client_exceptions.ClientConnectorError", "x")),
        ("connection_error", UNKNOWN, made("aiohttp.client_exceptions.ClientOSError", "x")),
        ("provider_misconfigured", NOT_SENT, made("aiohttp.client_exceptions.ClientConnectorCertificateError", "x")),
        # aiosmtplib
        ("connection_error", NOT_SENT, made("aiosmtplib.errors.SMTPConnectError", "x")),
        ("network_timeout", NOT_SENT, made("aiosmtplib.errors.SMTPConnectTimeoutError", "x")),
        ("network_timeout", UNKNOWN, made("aiosmtplib.errors.SMTPTimeoutError", "x")),
        # redis: an AuthenticationError is a ConnectionError, and the temporary ones are ResponseErrors.
        ("connection_error", UNKNOWN, made("redis.exceptions.ConnectionError", "Connection closed by server.")),
        (
            "connection_error",
            NOT_SENT,
            made("redis.exceptions.ConnectionError", "Error 111 connecting to x:1. Refused."),
        ),
        ("dns_failure", NOT_SENT, made("redis.exceptions.ConnectionError", "Error -2 connecting to x:1. Unknown.")),
        ("provider_misconfigured", REJECTED, made("redis.exceptions.AuthenticationError", "x")),
        ("provider_unavailable", REJECTED, made("redis.exceptions.BusyLoadingError", "x")),
        ("provider_unavailable", REJECTED, made("redis.exceptions.ReadOnlyError", "x")),
        ("provider_unavailable", REJECTED, made("redis.exceptions.ClusterDownError", "x")),
        ("resource_contention", REJECTED, made("redis.exceptions.OutOfMemoryError", "x")),
        ("internal_error", REJECTED, made("redis.exceptions.ResponseError", "WRONGTYPE")),
        # PostgreSQL: the state tells, not the type.
        ("provider_misconfigured", NOT_SENT, stated("28P01")),
        ("provider_unavailable", UNKNOWN, stated("25006", "psycopg.InternalError")),
        ("resource_contention", NOT_SENT, stated("40001")),
        ("resource_contention", NOT_SENT, stated("40P01", attribute="pgcode")),
        ("resource_contention", UNKNOWN, stated("40003")),
        ("provider_misconfigured", REJECTED, stated("42501")),
        ("internal_error", REJECTED, stated("42P01")),
        ("internal_error", UNKNOWN, stated("XX000")),
        ("internal_error", UNKNOWN, stated(7)),
        ("provider_misconfigured", NOT_SENT, said('connection failed: FATAL: database "x" does not exist')),
        ("connection_error", NOT_SENT, said("connection failed: Connection refused")),
        ("connection_error", UNKNOWN, said("server closed the connection unexpectedly")),
        # MySQL: the number does.
        ("provider_misconfigured", NOT_SENT, made("pymysql.err.OperationalError", 1045, "denied")),
        ("resource_contention", UNKNOWN, made("pymysql.err.OperationalError", 1205, "lock")),
        ("connection_error", NOT_SENT, made("pymysql.err.OperationalError", 2003, "refused")),
        ("unknown", UNKNOWN, made("pymysql.err.OperationalError")),
        ("unknown", UNKNOWN, made("pymysql.err.OperationalError", ["1205"])),
        # SQLAlchemy: the driver's exception says more.
        ("resource_contention", NOT_SENT, made("sqlalchemy.exc.OperationalError", "x", orig=stated("40001"))),
        ("unknown", UNKNOWN, made("sqlalchemy.exc.OperationalError", "x", orig=None)),
        ("connection_error", UNKNOWN, made("sqlalchemy.exc.OperationalError", "x", connection_invalidated=True)),
        ("internal_error", UNKNOWN, made("sqlalchemy.exc.SQLAlchemyError", "x")),
        # Others that hold one.
        ("connection_error", NOT_SENT, made("openai.APIConnectionError", "x", cause=made("httpx.ConnectError", "x"))),
        ("connection_error", UNKNOWN, made("openai.APIConnectionError", "x")),
        ("network_timeout", UNKNOWN, made("google.api_core.exceptions.RetryError", "x")),
        (
            "provider_throttled",
            REJECTED,
            made("google.api_core.exceptions.RetryError", cause=grpc("RESOURCE_EXHAUSTED")),
        ),
        # gRPC
        ("provider_unavailable", UNKNOWN, grpc("UNAVAILABLE")),
        ("connection_error", NOT_SENT, grpc("UNAVAILABLE", "failed to connect to all addresses; last error")),
        ("dns_failure", NOT_SENT, grpc("UNAVAILABLE", "DNS resolution failed for x")),
        ("internal_error", REJECTED, grpc("UNIMPLEMENTED")),
        ("internal_error", UNKNOWN, grpc("RESOURCE_EXHAUSTED", "Received message larger than max (9 vs. 3)")),
        ("unknown", UNKNOWN, grpc("OK")),
        ("unknown", UNKNOWN, made("grpc.RpcError", "x")),
        # Kafka
        ("internal_error", UNKNOWN, kafka("_TRANSPORT", is_fatal=True)),
        ("connection_error", UNKNOWN, kafka("_TRANSPORT")),
        ("resource_contention", NOT_SENT, kafka("_QUEUE_FULL")),
        ("provider_unavailable", UNKNOWN, kafka("SOMETHING_NEW", is_retriable=True)),
        ("unknown", UNKNOWN, kafka("SOMETHING_NEW")),
        ("unknown", UNKNOWN, made("cimpl.KafkaException")),
        # DNS: only a question for MX records is about a recipient.
        ("invalid_domain", NOT_SENT, not_found(15)),
        ("dns_failure", NOT_SENT, not_found(1)),
        ("dns_failure", NOT_SENT, made("dns.resolver.NXDOMAIN", "x")),
        ("dns_failure", NOT_SENT, made("dns.resolver.NXDOMAIN", "x", kwargs={"responses": {"x": None}})),
    ],
)
def test_exception_of_a_library_gives_class_and_outcome(expected, outcome, error):
    """Each trap in who derives from whom, and each place where a code stands."""
    failure = CLASSIFIER.classify(error, stage="send")
    assert (expected, outcome) == (str(failure.error_class), failure.outcome)


class Awkward:
    """Something whose every attribute raises."""

    def __getattr__(self, name):
        raise RuntimeError(name)


class Uncallable:
    """Something whose methods raise."""

    def name(self):
        raise RuntimeError

    def items(self):
        return [1, 2]

    code = name


NAMES = sorted({name for rule in EXCEPTION_RULES for name in rule.exceptions} | set(REPLY_READERS) | set(WRAPPERS))


@pytest.mark.parametrize(
    "make", [Awkward, Uncallable, list, dict, object, lambda: {"x": Uncallable()}, lambda: 7, lambda: (1, ValueError())]
)
def test_exception_whose_attributes_are_nonsense_is_classified_all_the_same(make):
    """Whatever stands where a library keeps something, there is an answer."""
    for name in NAMES:
        error = type("Strange", (foreign(name),), {})(make())
        for attribute in ATTRIBUTES:
            setattr(error, attribute, make())
        assert CLASSIFIER.classify(error, stage="send").rule


ATTRIBUTES = (
    "body code connection_invalidated content cause detail grpc_status_code headers http_body http_status kwargs message msg "
    "orig pgcode provider reason recipient recipients reply_code resp response smtp_code smtp_error smtp_phase sqlstate "
    "sqlite_errorcode status status_code title"
).split()


def test_causes_are_followed_to_an_end():
    """A cycle, and more of them than anyone looks at."""
    one, other = ValueError(), ValueError()
    one.__cause__, other.__cause__ = other, one
    assert not is_caused_by("ssl.SSLCertVerificationError")(one)
    deep = CERTIFICATE
    for _ in range(20):
        outer = ValueError()
        outer.__cause__ = deep
        deep = outer
    assert not is_caused_by("ssl.SSLCertVerificationError")(deep)
    assert is_caused_by("ssl.SSLCertVerificationError")(ExceptionGroup("x", [ValueError(), CERTIFICATE]))


def test_rules_have_names_of_their_own():
    """A name tells which row it was."""
    names = [rule.name for rule in EXCEPTION_RULES]
    assert sorted(set(names)) == sorted(names)


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "classified-exceptions.md"


def rows():
    """Give the rows of the page: what it says of each rule, reader and wrapper."""
    for rule in EXCEPTION_RULES:
        names = ", ".join(f"`{name}`" for name in rule.exceptions)
        only = rule.name.removeprefix("exception.").removeprefix(rule.exceptions[0]).removeprefix(".")
        outcome = rule.outcome.value if rule.outcome else ""
        yield f"| {names} | {only} | {rule.error_class} | {outcome} |"
    for name in REPLY_READERS:
        yield f"| `{name}` |"
    for name, attribute in WRAPPERS.items():
        yield f"| `{name}` | `{attribute}` |"


def test_page_of_classified_exceptions_says_what_the_tables_say():
    """Each row of the tables stands on the page, in the same order, and nothing else does."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert list(rows()) == [line for line in lines if line.startswith("| `")]
