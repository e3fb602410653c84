"""Who may do what: people and roles, sessions, the token for each form, and which requests are let in at all.

Nothing here knows a page or a store. A session is a signed cookie, so that the dashboard keeps nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import ipaddress
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import attrs
from starlette.requests import Request

from ..clock import Clock, current_clock
from ..errors import ConfigurationError
from ..message import check_author

__all__ = ["Access", "Authenticate", "Limit", "Operator", "Role", "Session"]

COOKIE: Final = "retrykit_session"
LASTS: Final = 12 * 3600
"""Seconds after which people sign in again."""

LEAST_TOKEN: Final = 16
"""Characters of a token."""
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class Role(StrEnum):
    """What somebody may do."""

    VIEWER = "viewer"
    """Look at everything."""
    OPERATOR = "operator"
    """Also change: put back, pause, note."""


def _name(value: str) -> str:
    return check_author(value)


@attrs.frozen
class Operator:
    """Somebody who looks at the dashboard.

    Args:
        name: what stands in the audit log, 1 to 255 characters.
        role: what they may do; also as text.

    Raises:
        ConfigurationError: the name or the role is not allowed.
    """

    name: str = attrs.field(converter=_name)
    role: Role = attrs.field(default=Role.VIEWER)

    def __attrs_post_init__(self) -> None:
        """Read the role."""
        try:
            object.__setattr__(self, "role", Role(self.role))
        except ValueError:
            raise ConfigurationError(f"role is {self.role!r}; allowed are {', '.join(Role)}") from None


Authenticate: TypeAlias = Callable[[Request], "Operator | Awaitable[Operator | None] | None"]
"""Says who sends a request, or None; may be a coroutine function."""


@attrs.frozen
class Session:
    """One browser, and who sits before it."""

    id: str
    """Random, or of a token; bound into each form."""
    operator: Operator
    csrf: str
    """What every form has to bring."""


class Limit:
    """How often each of many may do something: some at once, and so many a second from then on.

    Args:
        burst: how many at once.
        rate: how many a second.
        clock: where the time comes from; None: the clock in force.
    """

    def __init__(self, burst: float, rate: float, clock: Clock | None) -> None:
        self._burst, self._rate, self._clock = burst, rate, clock
        self._seen: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def takes(self, who: str) -> bool:
        """Tell whether somebody may once more, and count it."""
        now = (self._clock or current_clock()).monotonic()
        left, at = self._seen.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        self._seen[who] = (max(0.0, left - 1), now) if left >= 1 else (left, now)
        while len(self._seen) > 1000:  # whoever was away longest begins anew
            self._seen.popitem(last=False)
        return left >= 1


class Access:
    """Decides who a request is of.

    Args:
        authenticate: the application's own way, or None.
        tokens: who has which token; with them people sign in on a page.
        local: who they are that come over the loopback interface, where there is neither.
        clock: where the time comes from; None: the clock in force.
    """

    def __init__(
        self,
        authenticate: Authenticate | None,
        tokens: Mapping[str, Operator] | None,
        local: Operator,
        clock: Clock | None,
    ) -> None:
        if authenticate is not None and tokens is not None:
            raise ConfigurationError("give authenticate or tokens, not both")
        if tokens is not None and not tokens:
            raise ConfigurationError("tokens is empty; allowed is at least one token, or None")
        for token, operator in (tokens or {}).items():
            if not isinstance(token, str) or len(token) < LEAST_TOKEN or not isinstance(operator, Operator):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(
                    f"the token of {operator!r} is not allowed; allowed is text of {LEAST_TOKEN} characters and more, such as "
                    "secrets.token_urlsafe(), for an Operator"
                )
        self._authenticate = authenticate
        self._tokens = None if tokens is None else {_digest(token): operator for token, operator in tokens.items()}
        self._local = local
        self._clock = clock
        self._secret = secrets.token_bytes(32)

    @property
    def has_sign_in(self) -> bool:
        """Whether people sign in with a token."""
        return self._tokens is not None

    def refusal(self, request: Request) -> str | None:
        """Return why a request is not let in at all, or None: without anybody to ask, only this machine itself is."""
        if self._authenticate is not None or self._tokens is not None:
            return None
        if any(name in request.headers for name in _FORWARDED):
            return "the request came through a proxy"
        if request.client is not None and not is_loopback(request.client.host):
            return "the request came from another machine"
        host = _host(request.headers.get("host", ""))
        if host is None or not is_loopback(host):
            return "the address is not one of this machine"
        return None

    async def session(self, request: Request) -> Session | None:
        """Return the session of a request; None: nobody is signed in."""
        found = self._read(request.cookies.get(COOKIE, ""))
        if self._tokens is not None:
            operator = None if found is None else self._tokens.get(found[1])
            return None if found is None or operator is None else self._session(found[0], operator)
        operator = self._local
        if self._authenticate is not None:
            answer = self._authenticate(request)
            known = await answer if inspect.isawaitable(answer) else answer
            if known is None:
                return None
            operator = known
        return self._session(secrets.token_hex(16) if found is None else found[0], operator)

    def signed_in(self, token: str) -> Session | None:
        """Return a new session for whoever has a token, or None."""
        given, found = _digest(token), None
        for digest, operator in (self._tokens or {}).items():
            if hmac.compare_digest(digest, given):
                found = operator
        return None if found is None else self._session(secrets.token_hex(16), found)

    def cookie(self, session: Session, token: str = "") -> str:
        """Return the value of a session's cookie."""
        text = f"{session.id}.{_digest(token) if token else ''}.{self._now() + LASTS}"
        return f"{text}.{self._sign(text)}"

    def _read(self, cookie: str) -> tuple[str, str] | None:
        """Return the id of a session and the digest of its token, if the cookie is one of ours and still good."""
        text, _, mark = cookie.rpartition(".")
        if not hmac.compare_digest(self._sign(text).encode(), mark.encode("utf-8", "replace")):
            return None
        session, digest, until = text.split(".")
        return (session, digest) if self._now() < int(until) else None

    def _now(self) -> int:
        return int((self._clock or current_clock()).now().timestamp())

    def _session(self, id: str, operator: Operator) -> Session:
        return Session(id, operator, self._sign(f"form {id} {operator.name}"))

    def _sign(self, text: str) -> str:
        return hmac.new(self._secret, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def is_same_origin(request: Request) -> bool:
    """Tell whether a form was sent by a page of this very address, as the browser says it."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site") == "same-origin"
    try:
        return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower() != ""
    except ValueError:
        return False


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _host(header: str) -> str | None:
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine itself, by its name or its address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
