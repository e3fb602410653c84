"""Who is told of alerts: a log, a webhook, or any function of an `Alert`."""

from __future__ import annotations

import hashlib
import hmac
import logging
from typing import TYPE_CHECKING, Final, Literal

from ..clock import current_clock
from ..codec import encode
from ..errors import ConfigurationError, NotificationError
from ..machines.alerts import Alert, AlertState, Severity
from ..times import Duration, seconds, to_millis

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

__all__ = ["LogNotifier", "WebhookNotifier"]

_ANSWER: Final = 1024
"""Bytes of an answer that are read."""


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
        logging.getLogger("retrykit.alerts").log(
            level, "%s %s: %s%s", alert.state.value, alert.rule, alert.title, commands, extra={"alert": alert.to_dict()}
        )

    def __repr__(self) -> str:
        return "LogNotifier()"


class WebhookNotifier:
    """Posts alerts as JSON to an address.

    Redirects are not followed. With a secret each request carries ``X-Retrykit-Signature: t=<unix seconds>,v1=<hex>``: the
    HMAC-SHA256 of the seconds, a dot and the body. Neither the secret nor the path of the address comes into logs: addresses of
    chats are secrets themselves.

    Args:
        url: http or https.
        form: "json", the alert itself; "slack", what Slack, Mattermost and others take: one text.
        timeout: for connecting, and for each wait for the answer, > 0.
        secret: signs what is sent.
        headers: further ones, such as an authorization.

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
        headers: dict[str, str] | None = None,
    ) -> None:
        from urllib.parse import urlsplit

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(
                f"the url has the scheme {parts.scheme!r}; allowed are http and https addresses with a host"
            )
        if form not in ("json", "slack"):
            raise ConfigurationError(f"form is {form!r}; allowed are 'json' and 'slack'")
        self._url = url
        self._shown = f"{parts.scheme}://{parts.hostname}" + ("" if parts.port is None else f":{parts.port}")
        self._form = form
        self._timeout = seconds(timeout, "timeout", positive=True)
        self._secret = secret.encode() if isinstance(secret, str) else secret
        self._headers = {"Content-Type": "application/json", "User-Agent": "retrykit", **(headers or {})}
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
            with self._direct().open(request, timeout=self._timeout) as answer:
                answer.read(_ANSWER)
        except HTTPError as error:
            error.close()
            raise NotificationError(f"{self._shown} answered {error.code}; allowed are 200 to 299") from None
        except (OSError, HTTPException) as error:
            raise NotificationError(f"{self._shown} could not be reached: {type(error).__name__}: {error}") from None

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


def slack_text(alert: Alert) -> str:
    """Return an alert as one text, in which nothing is taken for markup or a mention."""
    title = f"[{alert.state.value}] {alert.severity.value}: {alert.title}"
    lines = [title] if alert.state is AlertState.RESOLVED else [title, *(f"$ {command}" for command in alert.commands)]
    return "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
