"""What requests and urllib3 raise."""

from __future__ import annotations

from tests.capabilities import require

require("requests", "urllib3", "trustme", "loopback")

import pytest
import requests
import requests.adapters
import urllib3

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, TIMEOUT, classified, closed_port, http, patience, raised, serving


def post(url, retries=0, timeout=PATIENCE, **options):
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retries))
        response = session.post(url, data=b"x", timeout=timeout, **options)
        response.raise_for_status()
        return response.json()


def raw(url, **options):
    options = {"retries": False, "timeout": PATIENCE} | options
    with urllib3.PoolManager() as pool:
        return pool.request("POST", url, body=b"x", **options)


def test_refused_connection_has_sent_nothing():
    """A NewConnectionError is a TimeoutError to urllib3, and a ConnectionError like any other to requests."""
    url = f"http://127.0.0.1:{closed_port()}"
    assert ("connection_error", "not_sent") == classified(raised(lambda: post(url)))
    assert ("connection_error", "not_sent") == classified(raised(lambda: raw(url)))
    error = raised(lambda: raw(url, retries=urllib3.Retry(1)))
    assert isinstance(error, urllib3.exceptions.MaxRetryError)
    assert ("connection_error", "not_sent") == classified(error)


@pytest.mark.parametrize(
    ("expected", "handle"),
    [
        ("connection_error", servers.hang_up_later),
        ("connection_error", servers.reset),
        ("connection_error", servers.say(b"garbage\r\n\r\n")),
        ("network_timeout", servers.stay_silent),
        ("provider_unavailable", http(200, b"no zip", Content_Encoding="gzip")),
        ("connection_error", http(200, b"short", Content_Length="9")),
    ],
)
@pytest.mark.parametrize("send", [post, raw])
def test_failure_after_the_request_leaves_the_outcome_open(send, expected, handle):
    """Whatever goes wrong with the answer, the request was there."""
    with serving(handle) as port:
        error = raised(lambda: send(f"http://127.0.0.1:{port}", timeout=patience(handle)))
    assert (expected, "unknown") == classified(error)


@pytest.mark.parametrize(
    ("expected", "status"),
    [("provider_misconfigured", 401), ("provider_throttled", 429), ("provider_unavailable", 503)],
)
def test_answer_is_read_with_headers_and_body(expected, status):
    """An HTTPError carries the response."""
    with serving(http(status, {"message": "not now"}, Retry_After="7")) as port:
        error = raised(lambda: post(f"http://127.0.0.1:{port}"))
    failure = servers.CLASSIFIER.classify(error, stage="send")
    assert (expected, "rejected", str(status)) == (str(failure.error_class), failure.outcome.value, failure.error_code)


def test_answer_whose_body_was_not_read_is_not_read_for_it():
    """The status speaks alone, and the stream is left to its owner."""
    with serving(http(503, b"x" * 10)) as port, requests.Session() as session:
        session.trust_env = False
        response = session.get(f"http://127.0.0.1:{port}", stream=True, timeout=PATIENCE)
        assert ("provider_unavailable", "rejected") == classified(raised(response.raise_for_status))
        assert b"x" * 10 == response.content
    assert ("unknown", "unknown") == classified(requests.HTTPError("without a response"))


@pytest.mark.parametrize(("expected", "status"), [("provider_unavailable", 503), ("provider_throttled", 429)])
def test_answers_after_which_urllib3_gave_up_are_answers(expected, status):
    """Its own retries hide the response; the status stands in the text."""
    retries = urllib3.Retry(1, status_forcelist=[status], allowed_methods=None, respect_retry_after_header=False)
    with serving(http(status)) as port:
        url = f"http://127.0.0.1:{port}"
        assert (expected, "rejected") == classified(raised(lambda: post(url, retries)))
        assert (expected, "rejected") == classified(raised(lambda: raw(url, retries=retries)))


def test_success_that_is_no_json_is_our_mistake():
    """It is OSError and ValueError, and happened after the request."""
    with serving(http(200, b"fine")) as port:
        error = raised(lambda: post(f"http://127.0.0.1:{port}"))
    assert isinstance(error, (OSError, ValueError))
    assert ("internal_error", "unknown") == classified(error)


def test_untrusted_certificate_is_a_matter_of_settings(tls_port):
    """To requests it is a ConnectionError."""
    url = f"https://127.0.0.1:{tls_port}"
    assert ("provider_misconfigured", "not_sent") == classified(raised(lambda: post(url)))
    assert ("provider_misconfigured", "not_sent") == classified(raised(lambda: raw(url)))


def test_server_without_tls_is_a_matter_of_settings():
    """OpenSSL names it; that nothing was sent is likely, not certain."""
    with serving(servers.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        error = raised(lambda: post(f"https://127.0.0.1:{port}"))
    assert ("provider_misconfigured", "unknown") == classified(error)


@pytest.mark.usefixtures("no_names")
def test_unknown_name_is_a_dns_failure():
    """A NameResolutionError is a NewConnectionError."""
    assert ("dns_failure", "not_sent") == classified(raised(lambda: post("http://nowhere.invalid")))
    assert ("dns_failure", "not_sent") == classified(raised(lambda: raw("http://nowhere.invalid")))


@pytest.mark.parametrize("url", ["http://", "nowhere", "gopher://127.0.0.1"])
def test_wrong_address_is_our_mistake(url):
    """InvalidURL, MissingSchema and InvalidSchema are OSError, and no trouble of the network."""
    error = raised(lambda: post(url))
    assert isinstance(error, OSError)
    assert ("internal_error", "not_sent") == classified(error)


def test_wrong_header_is_our_mistake():
    """InvalidHeader too."""
    error = raised(lambda: post("http://127.0.0.1:9", headers={"X": "a\nb"}))
    assert ("internal_error", "not_sent") == classified(error)


def test_endless_redirects_are_a_matter_of_settings():
    """The limit of requests is 30."""
    with serving(http(302, Location="/")) as port:
        error = raised(lambda: post(f"http://127.0.0.1:{port}"))
    assert ("provider_misconfigured", "unknown") == classified(error)


@pytest.mark.parametrize(("expected", "status"), [("provider_misconfigured", 407), ("connection_error", 502)])
def test_proxy_that_refuses_has_sent_nothing(expected, status):
    """To requests a ProxyError is a ConnectionError."""
    with serving(http(status)) as port:
        proxies = {"https": f"http://127.0.0.1:{port}"}
        error = raised(lambda: post("https://127.0.0.1:9", proxies=proxies))
    assert isinstance(error, requests.exceptions.ProxyError)
    assert (expected, "not_sent") == classified(error)


def test_proxy_that_is_not_there_has_sent_nothing():
    """Whatever the way to it, nobody was reached."""
    proxies = {"http": f"http://127.0.0.1:{closed_port()}"}
    assert ("connection_error", "not_sent") == classified(raised(lambda: post("http://127.0.0.1:9", proxies=proxies)))


def test_exhausted_pool_has_sent_nothing():
    """A pool that blocks gives up waiting."""
    with serving(http(200, b"x")) as port:
        with urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=1, block=True) as pool:
            held = pool.request("GET", "/", preload_content=False)
            error = raised(lambda: pool.request("GET", "/", pool_timeout=0.05))
            held.read()
            held.close()
    assert ("resource_contention", "not_sent") == classified(error)


def test_connection_that_is_not_answered_in_time_has_sent_nothing():
    """The listener's queue is full, so that nobody takes the connection."""
    with servers.unreachable_port() as port:
        url = f"http://127.0.0.1:{port}"
        assert ("network_timeout", "not_sent") == classified(raised(lambda: post(url, timeout=TIMEOUT)))
        assert ("network_timeout", "not_sent") == classified(raised(lambda: raw(url, timeout=TIMEOUT)))
