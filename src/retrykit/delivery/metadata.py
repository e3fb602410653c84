"""Our message id in what a provider gives back with its events, one function for each provider.

Each returns what to merge into a send. The name is `message_id`; Mailgun and SendGrid take it as any other variable of yours. What
comes back is `ProviderEvent.message_id`.
"""

from __future__ import annotations

import re
from typing import Final

from ..errors import InvalidMessageError
from ..message import check_id

__all__ = [
    "HEADER",
    "NAME",
    "mailgun_variables",
    "postmark_metadata",
    "sendgrid_custom_args",
    "sendgrid_smtp_header",
    "ses_message_tags",
    "smtp_headers",
]

NAME: Final = "message_id"
"""Under which the id stands in a provider's metadata."""

HEADER: Final = "X-Retrykit-Id"
"""The header in which the id stands in a mail."""

_HEADER_ID: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_SES_ID: Final = re.compile(r"[A-Za-z0-9_.@-]+")


def _fit(message_id: str, pattern: re.Pattern[str], where: str, allowed: str) -> str:
    if pattern.fullmatch(check_id(message_id)) is None:
        raise InvalidMessageError(f"the message id {message_id!r} does not fit into {where}; allowed are {allowed}")
    return message_id


def smtp_headers(message_id: str) -> dict[str, str]:
    """Return the headers to add to a mail. Bounce messages and providers that give back headers return them.

    Args:
        message_id: visible ASCII, spaces within.

    Raises:
        InvalidMessageError: it does not fit into a header.

    Example:
        >>> smtp_headers("welcome-17")
        {'X-Retrykit-Id': 'welcome-17'}
    """
    return {HEADER: _fit(message_id, _HEADER_ID, "a header", "printable ASCII characters")}


def ses_message_tags(message_id: str) -> list[dict[str, str]]:
    """Return the tags of a mail for SES: `EmailTags` of SendEmail (v2), `Tags` of SendEmail (v1) and SendRawEmail.

    Events of a configuration set give them back; bounce and complaint feedback without one does not.

    Args:
        message_id: ASCII letters, digits, "_", "-", "." and "@".

    Raises:
        InvalidMessageError: it does not fit into a tag.

    Source:
        https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_MessageTag.html

    Example:
        >>> ses_message_tags("welcome-17")
        [{'Name': 'message_id', 'Value': 'welcome-17'}]
    """
    value = _fit(message_id, _SES_ID, "a tag of SES", "ASCII letters, digits, '_', '-', '.' and '@'")
    return [{"Name": NAME, "Value": value}]


def sendgrid_custom_args(message_id: str) -> dict[str, str]:
    """Return the `custom_args` of a mail, or of one of its personalizations, for SendGrid's Mail Send API.

    Raises:
        InvalidMessageError: it is no message id.

    Example:
        >>> sendgrid_custom_args("welcome-17")
        {'message_id': 'welcome-17'}
    """
    return {NAME: check_id(message_id)}


def sendgrid_smtp_header(message_id: str) -> dict[str, dict[str, str]]:
    """Return what to merge into the JSON of the header X-SMTPAPI, for SendGrid over SMTP.

    Raises:
        InvalidMessageError: it is no message id.

    Example:
        >>> sendgrid_smtp_header("welcome-17")
        {'unique_args': {'message_id': 'welcome-17'}}
    """
    return {"unique_args": sendgrid_custom_args(message_id)}


def mailgun_variables(message_id: str) -> dict[str, str]:
    """Return the form fields of a mail for Mailgun.

    Raises:
        InvalidMessageError: it is no message id.

    Example:
        >>> mailgun_variables("welcome-17")
        {'v:message_id': 'welcome-17'}
    """
    return {f"v:{NAME}": check_id(message_id)}


def postmark_metadata(message_id: str) -> dict[str, str]:
    """Return the `Metadata` of a mail for Postmark.

    Args:
        message_id: at most 80 characters.

    Raises:
        InvalidMessageError: it is longer than Postmark keeps.

    Source:
        https://postmarkapp.com/support/article/1125-custom-metadata-faq

    Example:
        >>> postmark_metadata("welcome-17")
        {'message_id': 'welcome-17'}
    """
    return {NAME: _fit(message_id, re.compile(r"(?s:.{1,80})"), "Postmark's metadata", "80 characters")}
