"""What botocore raises."""

from __future__ import annotations

from tests.capabilities import require

require("botocore", "trustme", "loopback")

import botocore.config
import botocore.exceptions
import botocore.session
import pytest

from tests.libraries import servers
from tests.libraries.servers import PATIENCE, TIMEOUT, classified, closed_port, http, patience, raised, serving


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch, tmp_path):
    """Read nothing of this machine's own settings, and ask no metadata service."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def client(url, wait=PATIENCE, **options):
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "eu-west-1"} | options
    config = botocore.config.Config(connect_timeout=wait, read_timeout=wait, retries={"total_max_attempts": 1})
    return botocore.session.Session().create_client("sqs", endpoint_url=url, config=config, **keys)


def send(url, **options):
    return client(url, **options).send_message(QueueUrl=f"{url}/1/x", MessageBody="x")


def test_refused_connection_has_sent_nothing():
    """An EndpointConnectionError."""
    error = raised(lambda: send(f"http://127.0.0.1:{closed_port()}"))
    assert isinstance(error, botocore.exceptions.EndpointConnectionError)
    assert ("connection_error", "not_sent") == classified(error)


def test_connection_that_is_not_answered_in_time_has_sent_nothing():
    """A ConnectTimeoutError."""
    with servers.unreachable_port() as port:
        assert ("network_timeout", "not_sent") == classified(
            raised(lambda: send(f"http://127.0.0.1:{port}", wait=TIMEOUT))
        )


@pytest.mark.usefixtures("no_names")
def test_unknown_name_cannot_be_told_from_a_refused_connection():
    """Why it failed stands in no attribute; nothing was sent all the same."""
    assert ("connection_error", "not_sent") == classified(raised(lambda: send("http://nowhere.invalid")))


@pytest.mark.parametrize(
    ("expected", "handle"),
    [
        ("connection_error", servers.hang_up_later),
        ("connection_error", servers.reset),
        ("network_timeout", servers.stay_silent),
    ],
)
def test_failure_after_the_request_leaves_the_outcome_open(expected, handle):
    """Whatever goes wrong with the answer, the request was there."""
    with serving(handle) as port:
        assert (expected, "unknown") == classified(
            raised(lambda: send(f"http://127.0.0.1:{port}", wait=patience(handle)))
        )


@pytest.mark.parametrize(
    ("expected", "status", "code"),
    [
        ("provider_throttled", 400, "ThrottlingException"),
        ("provider_throttled", 403, "RequestThrottled"),
        ("provider_misconfigured", 403, "InvalidClientTokenId"),
        ("provider_misconfigured", 403, "ExpiredToken"),
        ("provider_unavailable", 503, "ServiceUnavailable"),
        ("provider_unavailable", 500, "InternalError"),
    ],
)
def test_answer_is_known_by_its_code(expected, status, code):
    """A ClientError keeps the service's code and the status."""
    with serving(http(status, {"__type": f"com.amazonaws.sqs#{code}", "message": "no"})) as port:
        error = raised(lambda: send(f"http://127.0.0.1:{port}"))
    assert isinstance(error, botocore.exceptions.ClientError)
    failure = servers.CLASSIFIER.classify(error, stage="send")
    assert (expected, "rejected", code) == (str(failure.error_class), failure.outcome.value, failure.error_code)


def test_untrusted_certificate_is_a_matter_of_settings(tls_port):
    """An SSLError is a ConnectionError, and that of a vendored requests."""
    assert ("provider_misconfigured", "not_sent") == classified(raised(lambda: send(f"https://127.0.0.1:{tls_port}")))


def test_missing_credentials_and_region_are_a_matter_of_settings():
    """Nothing was sent."""
    absent = {"aws_access_key_id": None, "aws_secret_access_key": None}
    error = raised(lambda: send("http://127.0.0.1:9", **absent))
    assert isinstance(error, botocore.exceptions.NoCredentialsError)
    assert ("provider_misconfigured", "not_sent") == classified(error)
    error = raised(lambda: botocore.session.Session().create_client("sqs"))
    assert isinstance(error, botocore.exceptions.NoRegionError)
    assert ("provider_misconfigured", "not_sent") == classified(error)


def test_wrong_arguments_are_our_mistake():
    """A ParamValidationError, and a service that does not exist."""
    error = raised(lambda: client("http://127.0.0.1:9").send_message(Nonsense="x"))
    assert ("internal_error", "not_sent") == classified(error)
    error = raised(lambda: botocore.session.Session().create_client("nonsense", region_name="x"))
    assert ("internal_error", "not_sent") == classified(error)
