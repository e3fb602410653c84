"""What aiohttp raises."""

from __future__ import annotations

from tests.capabilities import require

require("aiohttp", "trustme", "loopback")

import asyncio

import aiohttp
import pytest

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, TIMEOUT, classified, closed_port, http, patience, raised, serving

pytestmark = pytest.mark.usefixtures("swept")


def post(url, wait=PATIENCE, timeout=None, **options):
    async def main():
        settings = timeout or aiohttp.ClientTimeout(sock_connect=wait, sock_read=wait)
        connector = aiohttp.TCPConnector(resolver=aiohttp.ThreadedResolver())
        async with aiohttp.ClientSession(connector=connector, timeout=settings) as session:
            async with session.post(url, data=b"x", raise_for_status=True, **options) as response:
                return await response.json()

    return asyncio.run(main())


def test_refused_connection_has_sent_nothing():
    """A ClientConnectorError."""
    assert ("connection_error", "not_sent") == classified(raised(lambda: post(f"http://127.0.0.1:{closed_port()}")))


@pytest.mark.parametrize(
    ("expected", "names", "handle"),
    [
        ("connection_error", "ServerDisconnectedError", servers.hang_up_later),
        ("connection_error", "ClientOSError ServerDisconnectedError", servers.reset),
        ("network_timeout", "SocketTimeoutError", servers.stay_silent),
        ("connection_error", "ClientPayloadError", http(200, b"no zip", Content_Encoding="gzip")),
        ("connection_error", "ClientPayloadError", http(200, b"short", Content_Length="9")),
        ("internal_error", "ContentTypeError", http(200, b"fine")),
        ("internal_error", "JSONDecodeError", http(200, b"fine", Content_Type="application/json")),
        ("provider_misconfigured", "TooManyRedirects", http(302, Location="/")),
    ],
)
def test_failure_after_the_request_leaves_the_outcome_open(expected, names, handle):
    """A wrong content type is a ClientResponseError, and comes with status 200."""
    with serving(handle) as port:
        error = raised(lambda: post(f"http://127.0.0.1:{port}", patience(handle)))
    assert type(error).__name__ in names.split()
    assert (expected, "unknown") == classified(error)


def test_answer_that_is_no_http_is_no_refusal():
    """The client gives it the status 400, which no server has said."""
    with serving(servers.say(b"garbage\r\n\r\n")) as port:
        error = raised(lambda: post(f"http://127.0.0.1:{port}"))
    assert isinstance(error, aiohttp.ClientResponseError)
    assert ("connection_error", "unknown") == classified(error)


@pytest.mark.parametrize(
    ("expected", "status"),
    [("provider_misconfigured", 401), ("provider_throttled", 429), ("provider_unavailable", 503)],
)
def test_answer_is_read_with_its_headers(expected, status):
    """The body is not there any more."""
    with serving(http(status, {"message": "not now"}, Retry_After="7")) as port:
        error = raised(lambda: post(f"http://127.0.0.1:{port}"))
    failure = servers.CLASSIFIER.classify(error, stage="send")
    assert (expected, "rejected", str(status)) == (str(failure.error_class), failure.outcome.value, failure.error_code)


def test_timeout_of_the_whole_request_leaves_the_outcome_open():
    """It is the builtin TimeoutError."""
    with serving(servers.stay_silent) as port:
        error = raised(lambda: post(f"http://127.0.0.1:{port}", timeout=aiohttp.ClientTimeout(total=TIMEOUT)))
    assert ("network_timeout", "unknown") == classified(error)


def test_connection_that_is_not_answered_in_time_has_sent_nothing():
    """A ConnectionTimeoutError."""
    with servers.unreachable_port() as port:
        error = raised(lambda: post(f"http://127.0.0.1:{port}", TIMEOUT))
    assert ("network_timeout", "not_sent") == classified(error)


def test_untrusted_certificate_is_a_matter_of_settings(tls_port):
    """A ClientConnectorCertificateError is a ClientConnectorError and an OSError."""
    error = raised(lambda: post(f"https://127.0.0.1:{tls_port}"))
    assert ("provider_misconfigured", "not_sent") == classified(error)


def test_other_certificate_than_the_pinned_one_is_a_matter_of_settings(tls_port):
    """A ServerFingerprintMismatch is a ServerConnectionError."""
    error = raised(lambda: post(f"https://127.0.0.1:{tls_port}", ssl=aiohttp.Fingerprint(b"x" * 32)))
    assert ("provider_misconfigured", "not_sent") == classified(error)


def test_server_without_tls_cannot_be_connected_to():
    """A ClientConnectorSSLError."""
    with serving(servers.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        error = raised(lambda: post(f"https://127.0.0.1:{port}"))
    assert ("connection_error", "not_sent") == classified(error)


@pytest.mark.usefixtures("no_names")
def test_unknown_name_is_a_dns_failure():
    """A ClientConnectorDNSError."""
    assert ("dns_failure", "not_sent") == classified(raised(lambda: post("http://nowhere.invalid")))


@pytest.mark.parametrize("url", ["http://", "nowhere", "gopher://127.0.0.1"])
def test_wrong_address_is_our_mistake(url):
    """An InvalidURL, or one that is no HTTP URL."""
    assert ("internal_error", "not_sent") == classified(raised(lambda: post(url)))


@pytest.mark.parametrize(("expected", "status"), [("provider_misconfigured", 407), ("connection_error", 502)])
def test_proxy_that_refuses_has_sent_nothing(expected, status):
    """A ClientHttpProxyError is a ClientResponseError, yet not the provider's answer."""
    with serving(http(status)) as port:
        error = raised(lambda: post("https://127.0.0.1:9", proxy=f"http://127.0.0.1:{port}"))
    assert (expected, "not_sent") == classified(error)


def test_proxy_that_is_not_there_has_sent_nothing():
    """A ClientProxyConnectionError."""
    error = raised(lambda: post("http://127.0.0.1:9", proxy=f"http://127.0.0.1:{closed_port()}"))
    assert ("connection_error", "not_sent") == classified(error)


def test_websocket_that_was_refused_is_an_answer():
    """A WSServerHandshakeError carries the status."""

    async def main(port):
        async with aiohttp.ClientSession() as session:
            await session.ws_connect(f"http://127.0.0.1:{port}")

    with serving(http(503)) as port:
        error = raised(lambda: asyncio.run(main(port)))
    assert ("provider_unavailable", "rejected") == classified(error)
