"""What httpx, its successor and the transport below them raise."""

from __future__ import annotations

from tests.capabilities import require

require("httpx", "httpx2", "httpcore", "trustme", "loopback")

import asyncio

import httpcore
import httpx
import httpx2
import pytest

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, TIMEOUT, classified, closed_port, http, patience, raised, serving

BOTH = pytest.mark.parametrize("library", [httpx, httpx2])


def get(library, url, timeout=PATIENCE, **options):
    with library.Client(timeout=timeout, trust_env=False, **options) as client:
        return client.post(url, content=b"x").raise_for_status()


async def get_async(library, url):
    async with library.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
        return (await client.post(url, content=b"x")).raise_for_status()


@BOTH
def test_refused_connection_has_sent_nothing(library):
    """In both colours."""
    url = f"http://127.0.0.1:{closed_port()}"
    assert ("connection_error", "not_sent") == classified(raised(lambda: get(library, url)))
    assert ("connection_error", "not_sent") == classified(raised(lambda: asyncio.run(get_async(library, url))))


@BOTH
@pytest.mark.parametrize(
    ("expected", "names", "handle"),
    [
        ("connection_error", "RemoteProtocolError", servers.hang_up_later),
        ("connection_error", "ReadError RemoteProtocolError", servers.reset),
        ("connection_error", "RemoteProtocolError", servers.say(b"garbage\r\n\r\n")),
        ("network_timeout", "ReadTimeout", servers.stay_silent),
        ("provider_unavailable", "DecodingError", http(200, b"no zip", Content_Encoding="gzip")),
        ("connection_error", "RemoteProtocolError", http(200, b"short", Content_Length="9")),
    ],
)
def test_failure_after_the_request_leaves_the_outcome_open(library, expected, names, handle):
    """Whatever goes wrong with the answer, the request was there."""
    with serving(handle) as port:
        error = raised(lambda: get(library, f"http://127.0.0.1:{port}", patience(handle)))
    assert type(error).__name__ in names.split()
    assert (expected, "unknown") == classified(error)


@BOTH
@pytest.mark.parametrize("status", [401, 429, 503])
def test_answer_is_read_with_headers_and_body(library, status):
    """An error status is an answer like any other, with what it says about waiting."""
    with serving(http(status, {"message": "not now"}, Retry_After="7")) as port:
        error = raised(lambda: get(library, f"http://127.0.0.1:{port}"))
    failure = servers.CLASSIFIER.classify(error, stage="send")
    expected = {401: "provider_misconfigured", 429: "provider_throttled", 503: "provider_unavailable"}[status]
    assert (expected, "rejected", str(status)) == (
        str(failure.error_class),
        failure.outcome.value,
        failure.error_code,
    )


@BOTH
def test_answer_whose_body_was_not_read_is_not_read_for_it(library):
    """The status speaks alone."""
    with serving(http(503, b"x" * 10)) as port, library.Client(timeout=PATIENCE, trust_env=False) as client:
        with client.stream("GET", f"http://127.0.0.1:{port}") as response:
            error = raised(response.raise_for_status)
            assert ("provider_unavailable", "rejected") == classified(error)
            assert not response.is_stream_consumed


@BOTH
def test_redirect_is_no_answer_that_refuses(library):
    """What a redirect means nobody can say without following it."""
    with serving(http(302, Location="/elsewhere")) as port:
        assert ("unknown", "unknown") == classified(raised(lambda: get(library, f"http://127.0.0.1:{port}")))


@BOTH
def test_endless_redirects_are_a_matter_of_settings(library):
    """Following them ends somewhere."""
    with serving(http(302, Location="/")) as port:
        error = raised(lambda: get(library, f"http://127.0.0.1:{port}", follow_redirects=True))
    assert ("provider_misconfigured", "unknown") == classified(error)


@BOTH
def test_untrusted_certificate_is_a_matter_of_settings(library, tls_port):
    """Behind a ConnectError stands why."""
    error = raised(lambda: get(library, f"https://127.0.0.1:{tls_port}"))
    assert ("provider_misconfigured", "not_sent") == classified(error)


@BOTH
def test_server_without_tls_cannot_be_connected_to(library):
    """The handshake fails before anything is written."""
    with serving(servers.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        error = raised(lambda: get(library, f"https://127.0.0.1:{port}"))
    assert ("connection_error", "not_sent") == classified(error)


@BOTH
@pytest.mark.usefixtures("no_names")
def test_unknown_name_is_a_dns_failure(library):
    """In both colours."""
    assert ("dns_failure", "not_sent") == classified(raised(lambda: get(library, "http://nowhere.invalid")))
    error = raised(lambda: asyncio.run(get_async(library, "http://nowhere.invalid")))
    assert ("dns_failure", "not_sent") == classified(error)


@BOTH
@pytest.mark.parametrize("url", ["http://a:b", "ftp://127.0.0.1/", "//"])
def test_wrong_address_is_our_mistake(library, url):
    """An InvalidURL is no HTTPError, and no trouble of the network."""
    assert ("internal_error", "not_sent") == classified(raised(lambda: get(library, url)))


@BOTH
def test_exhausted_pool_has_sent_nothing(library):
    """The only connection is in use."""
    limits = library.Limits(max_connections=1)
    with serving(http(200, b"x" * 100)) as port:
        with library.Client(timeout=TIMEOUT, limits=limits, trust_env=False) as client:
            with client.stream("GET", f"http://127.0.0.1:{port}"):
                error = raised(lambda: client.get(f"http://127.0.0.1:{port}"))
    assert ("resource_contention", "not_sent") == classified(error)


@BOTH
@pytest.mark.parametrize(("expected", "status"), [("provider_misconfigured", 407), ("connection_error", 502)])
def test_proxy_that_refuses_has_sent_nothing(library, expected, status):
    """The tunnel was never there."""
    with serving(http(status)) as port:
        error = raised(lambda: get(library, "https://127.0.0.1:9", proxy=f"http://127.0.0.1:{port}"))
    assert (expected, "not_sent") == classified(error)


@BOTH
def test_unread_answer_is_our_mistake(library):
    """The stream was not read."""
    with serving(http(200, b"x")) as port, library.Client(trust_env=False) as client:
        with client.stream("GET", f"http://127.0.0.1:{port}") as response:
            assert ("internal_error", "unknown") == classified(raised(lambda: response.content))


@pytest.mark.parametrize(
    ("expected", "handle"),
    [
        (("connection_error", "unknown"), servers.hang_up_later),
        (("connection_error", "unknown"), servers.reset),
        (("network_timeout", "unknown"), servers.stay_silent),
    ],
)
def test_transport_alone(expected, handle):
    """What httpx maps is recognised unmapped."""
    timeouts = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), patience(handle))}
    with serving(handle) as port, httpcore.ConnectionPool() as pool:
        error = raised(lambda: pool.request("POST", f"http://127.0.0.1:{port}/", content=b"x", extensions=timeouts))
        assert expected == classified(error)


def test_transport_alone_refused():
    """Its ConnectError too."""
    with httpcore.ConnectionPool() as pool:
        error = raised(lambda: pool.request("GET", f"http://127.0.0.1:{closed_port()}/"))
    assert ("connection_error", "not_sent") == classified(error)
