"""What the HTTP clients of the standard library raise."""

from __future__ import annotations

from tests.capabilities import require

require("trustme", "loopback")

import http.client
import json
import ssl
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, classified, closed_port, patience, raised, serving

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def post(url, wait=PATIENCE):
    with OPENER.open(url, data=b"x", timeout=wait) as response:
        return json.load(response)


def plain(url, wait=PATIENCE):
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=wait)) as connection:
        connection.request("POST", "/", b"x")
        return connection.getresponse().read()


def test_refused_connection_has_sent_nothing():
    """A URLError holds the reason."""
    url = f"http://127.0.0.1:{closed_port()}"
    assert ("connection_error", "not_sent") == classified(raised(lambda: post(url)))
    assert ("connection_error", "not_sent") == classified(raised(lambda: plain(url)))


@pytest.mark.parametrize("send", [post, plain])
@pytest.mark.parametrize(
    ("expected", "handle"),
    [
        ("connection_error", servers.hang_up_later),
        ("connection_error", servers.reset),
        ("connection_error", servers.say(b"garbage\r\n\r\n")),
        ("connection_error", servers.http(200, b"short", Content_Length="9")),
        ("network_timeout", servers.stay_silent),
    ],
)
def test_failure_after_the_request_leaves_the_outcome_open(send, expected, handle):
    """A RemoteDisconnected is both a ConnectionResetError and a BadStatusLine."""
    with serving(handle) as port:
        error = raised(lambda: send(f"http://127.0.0.1:{port}", patience(handle)))
    assert (expected, "unknown") == classified(error)


def test_success_that_is_no_json_is_our_mistake():
    """It was sent all the same."""
    with serving(servers.http(200, b"fine")) as port:
        error = raised(lambda: post(f"http://127.0.0.1:{port}"))
    assert ("internal_error", "unknown") == classified(error)


@pytest.mark.parametrize(
    ("expected", "status"),
    [("provider_misconfigured", 401), ("provider_throttled", 429), ("provider_unavailable", 503)],
)
def test_answer_is_read_and_its_body_left_to_the_caller(expected, status):
    """An HTTPError is a file, which is not read for the classification."""
    with serving(servers.http(status, {"message": "not now"}, Retry_After="7")) as port:
        error = raised(lambda: post(f"http://127.0.0.1:{port}"))
        assert isinstance(error, urllib.error.HTTPError)
        failure = servers.CLASSIFIER.classify(error, stage="send")
        with error:
            assert {"message": "not now"} == json.load(error)
    assert (expected, "rejected", str(status)) == (str(failure.error_class), failure.outcome.value, failure.error_code)


def test_untrusted_certificate_is_a_matter_of_settings(tls_port):
    """An SSLCertVerificationError is ValueError and OSError."""
    error = raised(lambda: post(f"https://127.0.0.1:{tls_port}"))
    assert isinstance(error.reason, ssl.SSLCertVerificationError)
    assert ("provider_misconfigured", "not_sent") == classified(error)
    assert ("provider_misconfigured", "not_sent") == classified(error.reason)


def test_handshake_without_a_common_version_is_a_matter_of_settings(untrusted):
    """OpenSSL's reason says that nothing was written."""
    context = ssl._create_unverified_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    untrusted.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        with serving(servers.stay_silent, untrusted) as port:
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=PATIENCE)
            with closing(connection):
                error = raised(lambda: connection.request("GET", "/"))
    finally:
        untrusted.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED
    assert ("provider_misconfigured", "not_sent") == classified(error)


def test_server_without_tls_is_a_matter_of_settings():
    """OpenSSL names it; that nothing was sent is likely, not certain."""
    with serving(servers.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        error = raised(lambda: post(f"https://127.0.0.1:{port}"))
    assert ("provider_misconfigured", "unknown") == classified(error)


@pytest.mark.usefixtures("no_names")
def test_unknown_name_is_a_dns_failure():
    """The reason is a gaierror."""
    assert ("dns_failure", "not_sent") == classified(raised(lambda: post("http://nowhere.invalid")))


@pytest.mark.parametrize("url", ["http://", "gopher://127.0.0.1", "http://a:b", "http://127.0.0.1/a b"])
def test_wrong_address_is_our_mistake(url):
    """A reason in words is no lost connection."""
    assert ("internal_error", "not_sent") == classified(raised(lambda: post(url)))


def test_request_out_of_turn_is_our_mistake():
    """A CannotSendRequest."""
    with serving(servers.stay_silent) as port:
        with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
            connection.request("GET", "/")
            assert ("internal_error", "not_sent") == classified(raised(lambda: connection.request("GET", "/")))
