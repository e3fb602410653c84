"""Checks before sending."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit import ErrorClass, ErrorClassifier, Message
from retrykit.errors import ConfigurationError
from retrykit.validation import InvalidAddressError, MissingFieldsError, address, required


def test_required_names_every_missing_field() -> None:
    """All missing and empty fields stand in one error, which is an invalid payload."""
    check = required("message_id", "recipient", "template_id", "campaign_id")
    with pytest.raises(MissingFieldsError, match=r"the message 'm1' lacks: recipient, template_id$") as caught:
        check(Message("m1", {"template_id": ""}, {"campaign_id": "spring"}))
    failure = ErrorClassifier().classify(caught.value, stage="validate")
    assert failure.error_class is ErrorClass.INVALID_PAYLOAD


@pytest.mark.parametrize("payload", [{"recipient": "a"}, {"recipient": 0}])
def test_required_present_fields_pass(payload: dict[str, object]) -> None:
    """A field that is there passes, whatever its value."""
    required("recipient")(Message("m1", payload))  # type: ignore[arg-type]


def test_required_without_names_is_refused() -> None:
    """A check that checks nothing is an error at once."""
    with pytest.raises(ConfigurationError, match="at least one name"):
        required()


@pytest.mark.parametrize(
    "text",
    [
        "ada@example.org",
        "o'neil+news@mail.example.co.uk",
        "ada@bücher.example",
        "a@b-c.de",
        "x" * 64 + "@example.org",
        "用户@例子.广告",
    ],
)
def test_address_plausible_passes(text: str) -> None:
    """Ordinary, long and international addresses pass."""
    address()(Message("m1", {}, {"recipient": text}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ada",
        "ada@",
        "@example.org",
        "ada at example.org",
        "ada@example",
        "ada@@example.org",
        "a b@example.org",
        "ada@example..org",
        "ada@-example.org",
        "ada@example-.org",
        "x" * 65 + "@example.org",
        "ada@" + "x" * 64 + ".org",
        "ada@example.org\n",
        "ada@example.org, bob@example.org",
        "<ada@example.org>",
    ],
)
def test_address_implausible_is_an_invalid_recipient_and_not_quoted(text: str) -> None:
    """What cannot be an address is refused as the recipient's fault, without putting it into the error."""
    with pytest.raises(InvalidAddressError) as caught:
        address()(Message("m1", {}, {"recipient": text}))
    assert str(caught.value) == "the recipient of the message 'm1' is not an e-mail address"
    assert ErrorClassifier().classify(caught.value, stage="validate").error_class is ErrorClass.INVALID_RECIPIENT


def test_address_that_is_no_text_is_refused() -> None:
    """A recipient of another type is no address."""
    with pytest.raises(InvalidAddressError):
        address("to")(Message("m1", {"to": 7}))


@given(st.text())
def test_address_any_text_is_decided(text: str) -> None:
    """No text makes the check fail in another way."""
    try:
        address()(Message("m1", {"recipient": text}))
    except InvalidAddressError:
        return
    local, _, domain = text.rpartition("@")
    assert 0 < len(local) <= 64
    assert "." in domain
