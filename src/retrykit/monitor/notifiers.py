"""Who is told of alerts: a log, a webhook, or any function of an `Alert`."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from ..checks import printable
from ..clock import current_clock
from ..codec import encode
from ..errors import ConfigurationError, NotificationError
from ..machines.alerts import Alert, AlertState, Severity
from ..times import Duration, seconds, to_millis

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

__all__ = ["LogNotifier", "WebhookNotifier"]

_LONGEST: Final = 60.0
_PRINTED: Final = re.compile("[!-~]+")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\t -~\xa0-\xff]*")
_OURS: Final = ("content-length", "transfer-encoding", "x-retrykit-signature")


class LogNotifier:
    """Writes alerts to the log ``retrykit.alerts``: pages as errors, tickets as warnings, what is over as information.

    Example:
        >>> LogNotifier()
        LogNotifier()
    """

    def __call__(self, alert: Alert) -> None:
        """Write one line, with the alert's figures as `extra`."""
        if alert.state is AlertState.RESOLVED:
            level = logging.INFO
        else:
            level = logging.ERROR if alert.severity is Severity.PAGE else logging.WARNING
        commands = f"; first: {alert.commands[0]}" if alert.commands and alert.state is AlertState.FIRING else ""
        text = printable(
            f"{alert.state.value} {alert.rule}: {alert.title}{commands}"
        )  # a provider may have written into it
        logging.getLogger("retrykit.alerts").log(level, "%s", text, extra={"alert": alert.to_dict()})

    def __repr__(self) -> str:
        return "LogNotifier()"


class WebhookNotifier:
    """Posts alerts as JSON to an address.

    Redirects are not followed. With a secret each request carries ``X-Retrykit-Signature: t=<unix seconds>,v1=<hex>``: the
    HMAC-SHA256 of the seconds, a dot and the body. Neither the secret nor what follows the host in the address comes into logs,
    errors or the notifier's own text: addresses of chats are secrets themselves.

    Args:
        url: http or https; a user and a password in it become an Authorization header.
        form: "json", the alert itself; "slack", what Slack, Mattermost and others take: one text.
        timeout: for connecting, and for each wait for the answer, > 0 and up to a minute.
        secret: signs what is sent; not empty.
        headers: further ones, such as an authorization; each value is one line.

    Raises:
        ConfigurationError: a value is not allowed.

    Example:
        >>> WebhookNotifier("https://hooks.example.com/services/T0/B0/x1y2", form="slack")
        WebhookNotifier('https://hooks.example.com', form='slack')
    """

    def __init__(
        self,
        url: str,
        *,
        form: Literal["json", "slack"] = "json",
        timeout: Duration = 5.0,
        secret: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._url, self._shown, credentials = _address(url)
        if form not in ("json", "slack"):
            raise ConfigurationError(f"form is {form!r}; allowed are 'json' and 'slack'")
        self._form = form
        self._timeout = seconds(timeout, "timeout", positive=True, most=_LONGEST)
        self._secret = _checked_secret(secret)
        self._headers = {"Content-Type": "application/json", "User-Agent": "retrykit", **credentials}
        self._headers |= _checked_headers(headers)
        self._opener: OpenerDirector | None = None

    def __repr__(self) -> str:
        return f"WebhookNotifier({self._shown!r}, form={self._form!r})"

    def __call__(self, alert: Alert) -> None:
        """Post an alert.

        Raises:
            NotificationError: it was not taken; the host and the status are named.
        """
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request

        body = encode({"text": slack_text(alert)} if self._form == "slack" else alert.to_dict())
        request = Request(self._url, body, self._headers, method="POST")  # noqa: S310 - its scheme was checked
        if self._secret is not None:
            request.add_header("X-Retrykit-Signature", self._signature(body))
        try:
            self._direct().open(request, timeout=self._timeout).close()  # the status says all: a body might never end
            return
        except HTTPError as error:
            error.close()
            said = f"{self._shown} answered {error.code}; allowed are 200 to 299"
        except (OSError, HTTPException, ValueError) as error:
            said = f"{self._shown} could not be reached: {_cause(error)}"
        raise NotificationError(said)  # by itself: what was caught may quote what is secret

    def _direct(self) -> OpenerDirector:
        """Return what opens addresses and follows no redirect: it could lead to another scheme, or to a host inside."""
        from urllib.request import HTTPRedirectHandler, build_opener

        class NoRedirects(HTTPRedirectHandler):
            def redirect_request(self, *_: object, **__: object) -> None:
                return None

        if self._opener is None:
            self._opener = build_opener(NoRedirects)
        return self._opener

    def _signature(self, body: bytes) -> str:
        at = to_millis(current_clock().now()) // 1000
        assert self._secret is not None, "only called where there is one"
        digest = hmac.new(self._secret, b"%d." % at + body, hashlib.sha256).hexdigest()
        return f"t={at},v1={digest}"


def _address(url: str) -> tuple[str, str, dict[str, str]]:
    """Return the URL that is asked for, what of it may be shown, and the header that its user and password become.

    Errors never quote it.
    """
    from urllib.parse import urlsplit

    allowed = "allowed are http and https addresses with a host, such as 'https://hooks.example.com/services/...'"
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise ConfigurationError(f"the url is of type {type(url).__name__}; {allowed}")
    if not _PRINTED.fullmatch(url):
        raise ConfigurationError(
            f"the url has a blank, an end of line, or another character that no address has, or none at all; {allowed}, "
            "other characters written as %20 and the like"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # its text quotes the url
        raise ConfigurationError(f"the url has a host or a port that cannot be read; {allowed}") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        said = (
            "has no host, or the port 0"
            if parts.scheme in ("http", "https")
            else "does not begin with http:// or https://"
        )
        raise ConfigurationError(f"the url {said}; {allowed}")
    userinfo, separator, netloc = parts.netloc.rpartition("@")
    netloc = netloc.lower()
    bare = parts._replace(netloc=netloc, fragment="").geturl()
    return bare, f"{parts.scheme}://{netloc}", _basic(userinfo) if separator else {}


def _basic(userinfo: str) -> dict[str, str]:
    """Return the header that a user and a password in an address stand for: the HTTP client would take them for the host."""
    from base64 import b64encode
    from urllib.parse import unquote_to_bytes

    return {"Authorization": f"Basic {b64encode(unquote_to_bytes(userinfo)).decode('ascii')}"}


def _checked_secret(secret: str | bytes | None) -> bytes | None:
    if secret is None:
        return None
    allowed = "allowed are text or bytes that are not empty, or None, which signs nothing"
    if not isinstance(secret, (str, bytes)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"secret is of type {type(secret).__name__}; {allowed}")
    if not secret:
        raise ConfigurationError(f"secret is empty; {allowed}")
    try:
        return secret.encode() if isinstance(secret, str) else secret
    except UnicodeEncodeError:  # its text shows where, and its object what
        raise ConfigurationError("secret holds a lone surrogate, which has no bytes; allowed is other text") from None


def _checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers, under the names by which the HTTP client tells them apart; errors quote no value."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"headers is of type {type(headers).__name__}; allowed is a mapping of names to text, such as "
            "{'Authorization': 'Bearer ...'}"
        )
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"headers has the name {name!r}; allowed are letters, digits and any of !#$%&'*+.^_`|~-"
            )
        if name.lower() in _OURS:
            raise ConfigurationError(f"headers has {name!r}, which the notifier sets itself; leave it out")
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):  # pyright: ignore[reportUnnecessaryIsInstance]
            seen = (
                "a value with an end of line or another character that none has"
                if isinstance(value, str)
                else f"a value of type {type(value).__name__}"
            )
            raise ConfigurationError(f"headers has {seen} for {name!r}; allowed is one line of text in Latin-1")
    return {name.capitalize(): value for name, value in headers.items()}


def _cause(error: Exception) -> str:
    """Return why a server was not reached: the kind of error, and what the system says. Other texts may quote what was asked for."""
    reason = getattr(error, "reason", error)  # what urllib wraps
    reason = reason if isinstance(reason, Exception) else error
    said = "timed out" if isinstance(reason, TimeoutError) else getattr(reason, "strerror", None)
    return f"{type(reason).__name__}: {said}" if said else type(reason).__name__


def slack_text(alert: Alert) -> str:
    """Return an alert as one text, in which nothing is taken for markup or a mention."""
    title = f"[{alert.state.value}] {alert.severity.value}: {alert.title}"
    lines = [title] if alert.state is AlertState.RESOLVED else [title, *(f"$ {command}" for command in alert.commands)]
    return "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
