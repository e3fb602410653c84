"""The dashboard as an ASGI application: its routes, and what holds for each request before a page sees it."""

from __future__ import annotations

import hmac
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, TypeAlias, cast

import attrs
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from .._steps import is_async
from ..checks import has_methods, instance_with
from ..clock import Clock
from ..dead_letter_queue import AsyncDeadLetterQueue
from ..deadletter import Cipher
from ..errors import RedriveConflictError, RetrykitError, StoreError, StoreUnavailableError
from ..stores import AsyncBackend, Backend, as_async
from . import audit, circuits, deliveries, groups, guide, letters, overview, redrives
from .access import COOKIE, LASTS, Access, Authenticate, Limit, Operator, Role, Session, is_same_origin
from .asking import Ask, read_form
from .figures import Figures
from .running import Running
from .site import Site, asset, link, root_of

__all__ = ["Dashboard"]

Page: TypeAlias = Callable[[Site, Ask], Awaitable[Response]]

_LOOKS: Final[dict[str, Page]] = {
    "/": overview.overview,
    "/letters": letters.search,
    "/letter": letters.letter,
    "/groups": groups.groups,
    "/group": groups.group,
    "/redrives": redrives.redrives,
    "/redrive": redrives.redrive,
    "/plan": redrives.plan,
    "/circuits": circuits.circuits,
    "/deliveries": deliveries.deliveries,
    "/delivery": deliveries.delivery,
    "/audit": audit.audit,
    "/runbook": guide.runbook,
}
"""Pages to look at."""

_CHANGES: Final[dict[str, Page]] = {
    "/group": groups.annotate,
    "/plan/confirm": redrives.confirm,
    "/plan/start": redrives.start,
    "/redrive": redrives.act,
    "/circuits/pause": circuits.pause,
    "/circuits/resume": circuits.resume,
    "/circuits/reset": circuits.reset,
}
"""Forms that change something, or are about to: for operators."""

_COSTLY: Final = ("/letters", "/groups", "/plan", "/runbook")
"""Pages whose cost depends on what is asked for."""

_STATIC: Final = {"style.css": "text/css", "app.js": "text/javascript", "icon.svg": "image/svg+xml"}

_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Dashboard:
    """The dashboard, an ASGI application; alone or mounted under a path of another one.

    Without `authenticate` and `tokens` it answers only this machine itself: over the loopback interface, under a name of this machine, and not through
    a proxy.

    Args:
        backend: where the stores are, of either colour. Who made it closes it. Give a SQLite one as it is, not as its asynchronous twin,
            which makes one call at a time: who looks would wait for who waits to write.
        authenticate: says who sends a request, an `Operator` or None; may be a coroutine function.
        tokens: who has which token of 16 characters and more; people sign in with theirs on a page.
        local: who they are that come over the loopback interface, where there is neither.
        read_only: whether nobody may change anything.
        run_redrives: whether redrives go on here, in the background; False leaves them to the runners of your services.
        options: what the commands that pages show end with, such as `` --url sqlite:///mail.db``.
        cipher: opens payloads that were encrypted, for those who put them back. They are never shown.
        clock: where the time comes from; None: the clock in force.

    Raises:
        ConfigurationError: a value is not allowed.
        MissingExtraError: the extra ``dashboard`` is not installed; when the package is imported.

    Example:
        >>> from retrykit import open_backend
        >>> from retrykit.dashboard import Dashboard, Operator
        >>> tokens = {"correct horse battery": Operator("ada", "operator")}
        >>> dashboard = Dashboard(open_backend("memory://"), tokens=tokens)
    """

    def __init__(
        self,
        backend: Backend | AsyncBackend,
        *,
        authenticate: Authenticate | None = None,
        tokens: Mapping[str, Operator] | None = None,
        local: Operator = Operator("local", Role.OPERATOR),  # noqa: B008 - frozen
        read_only: bool = False,
        run_redrives: bool = True,
        options: str = "",
        cipher: Cipher | None = None,
        clock: Clock | None = None,
    ) -> None:
        instance_with(
            backend,
            "backend",
            "dead_letters redrives circuits signals",
            "one with all its stores, such as open_backend(url)",
        )
        has_methods(clock, "clock", "now monotonic sleep sleep_async")
        if is_async(backend.dead_letters.search):
            read = written = cast("AsyncBackend", backend)
        else:  # calls go one after the other, and nobody who looks is to wait for who waits to write
            read, written = (as_async(cast("Backend", backend)) for _ in range(2))
        self._site = Site(
            backend=read,
            queue=AsyncDeadLetterQueue(read, cipher=cipher, clock=clock),
            access=Access(authenticate, tokens, local, clock),
            running=Running(written, cipher, clock, run_redrives and not read_only),
            figures=Figures(clock),
            read_only=read_only,
            options=options,
            clock_given=clock,
        )
        self._changing = attrs.evolve(
            self._site, backend=written, queue=AsyncDeadLetterQueue(written, cipher=cipher, clock=clock)
        )
        self._searches = Limit(burst=30, rate=3, clock=clock)
        self._tries = Limit(burst=10, rate=0.2, clock=clock)
        routes = [
            Route("/static/{digest}/{name}", _static),
            Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            *(Route(path, self._endpoint(path), methods=["GET", "POST"]) for path in {**_LOOKS, **_CHANGES}),
        ]
        handlers = {HTTPException: self._refused, Exception: self._broken}
        self._app = Starlette(
            routes=routes,
            exception_handlers=cast("Mapping[object, Callable[..., Awaitable[Response]]]", handlers),
            lifespan=self._lifespan,
        )
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI says."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, send_safely)

    async def aclose(self) -> None:
        """Leave the redrives that go on here to others. An application that mounts the dashboard calls it at its end."""
        await self._site.running.end()

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        yield
        await self.aclose()

    def _endpoint(self, path: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            is_form = request.method == "POST"
            page = (_CHANGES if is_form else _LOOKS).get(path)
            if page is None:
                raise HTTPException(405, "This address takes " + ("no forms." if is_form else "a form only."))
            if (left := self._left_out(request)) is not None:
                return left
            session = await self._site.access.session(request)
            if session is None:
                return self._unknown(request)
            given = await self._form(request, session) if is_form else dict(request.query_params)
            if path in _COSTLY and not self._searches.takes(session.operator.name):
                raise HTTPException(
                    429, "You search faster than the store is asked. Wait a few seconds.", {"retry-after": "3"}
                )
            ask = Ask(request, session, self._site.clock, given)
            return self._with_cookie(request, await self._answer(page, ask), session)

        return endpoint

    async def _answer(self, page: Page, ask: Ask) -> Response:
        """Return a page, or another one that says why not, and what to do."""
        try:
            return await page(self._changing if ask.request.method == "POST" else self._site, ask)
        except RedriveConflictError as error:
            return self._site.page(ask, "conflict.html", 409, said=str(error), redrive_id=error.redrive_id)
        except StoreError as error:
            return self._store_is_away(ask.request, error)
        except HTTPException as error:
            title = HTTPStatus(error.status_code).phrase
            return self._site.page(ask, "refused.html", error.status_code, title=title, said=error.detail)
        except RetrykitError as error:
            written = ask.given.get("q", "")[:4_000] if ask.request.method == "GET" else ""
            return self._site.page(ask, "refused.html", 400, title="That cannot be done", said=str(error), q=written)

    def _store_is_away(self, request: Request, error: StoreError) -> Response:
        is_away = isinstance(error, StoreUnavailableError)
        page = self._site.bare(request, "away.html", 503, said=str(error), is_away=is_away)
        page.headers["retry-after"] = "5"
        if is_away and request.method == "GET":
            page.headers["refresh"] = "5"
        return page

    async def _form(self, request: Request, session: Session) -> Mapping[str, str]:
        """Return the fields of a form, if it comes from a page of ours and its sender may change something."""
        if not is_same_origin(request):
            raise HTTPException(403, "The form was not sent by a page of this dashboard, so nothing was done.")
        given = await read_form(request)
        if not hmac.compare_digest(given.get("csrf", "").encode("utf-8", "replace"), session.csrf.encode()):
            raise HTTPException(
                403, "The form is of another session, so nothing was done. Go back, reload the page and send it again."
            )
        if self._site.read_only:
            raise HTTPException(403, "This dashboard is read-only: it was started so, and nothing can be changed here.")
        if session.operator.role is not Role.OPERATOR:
            raise HTTPException(
                403, f"You are signed in as {session.operator.name!r}, who may look but not change anything."
            )
        return given

    def _left_out(self, request: Request) -> Response | None:
        """Return the answer to a request that is not let in, or that has to be sent again to bring its cookie."""
        why = self._site.access.refusal(request)
        if why is not None:
            return self._site.bare(
                request,
                "refused.html",
                403,
                title="Only this machine itself is let in",
                said=f"{why}, and this dashboard knows nobody. Give it tokens (--token-file), or an authenticate of your application.",
            )
        headers = request.headers
        if request.method == "GET" and headers.get("sec-fetch-site") == "cross-site" and COOKIE not in request.cookies:
            # A strict cookie does not come along from a chat's link; it does when this page sends the browser here again.
            page = self._site.bare(request, "again.html")
            page.headers["refresh"] = "0"
            return page if headers.get("sec-fetch-mode") == "navigate" else None
        return None

    def _unknown(self, request: Request) -> Response:
        if not self._site.access.has_sign_in or request.method == "POST":
            raise HTTPException(401, "Nobody is signed in.")
        root = root_of(request)
        query = request.scope["query_string"].decode("latin-1")
        wanted = f"{request.scope['path'].removeprefix(root)}{'?' if query else ''}{query}"
        return RedirectResponse(link(root, "/sign-in", to=wanted if len(wanted) < 3_000 else "/"), 303)

    async def _sign_in(self, request: Request) -> Response:
        access = self._site.access
        if not access.has_sign_in:
            raise HTTPException(404, "Nobody signs in here.")
        is_form = request.method == "POST"
        given: Mapping[str, str] = dict(request.query_params)
        if is_form:
            if not is_same_origin(request):
                raise HTTPException(403, "The form was not sent by a page of this dashboard.")
            given = await read_form(request)
        wanted = given.get("to", "/")
        if not wanted.startswith("/") or wanted.startswith("//") or "\\" in wanted or not wanted.isprintable():
            wanted = "/"
        if not is_form:
            return self._site.bare(request, "sign_in.html", to=wanted, said="")
        if not self._tries.takes(request.client.host if request.client else ""):
            raise HTTPException(
                429, "Too many tokens were tried. There is one more try every five seconds.", {"retry-after": "5"}
            )
        token = given.get("token", "").strip()
        session = access.signed_in(token)
        if session is None:
            return self._site.bare(request, "sign_in.html", 401, to=wanted, said="No one has this token.")
        root = root_of(request)
        response = RedirectResponse(f"{root}{wanted}", 303)
        self._set_cookie(request, response, access.cookie(session, token))
        return response

    async def _sign_out(self, request: Request) -> Response:
        if not is_same_origin(request):
            raise HTTPException(403, "The form was not sent by a page of this dashboard.")
        root = root_of(request)
        response = RedirectResponse(f"{root}/sign-in" if self._site.access.has_sign_in else f"{root}/", 303)
        response.delete_cookie(COOKIE, path=f"{root}/", httponly=True, samesite="strict")
        return response

    def _with_cookie(self, request: Request, response: Response, session: Session) -> Response:
        if not self._site.access.has_sign_in and not request.cookies.get(COOKIE, "").startswith(f"{session.id}."):
            self._set_cookie(request, response, self._site.access.cookie(session))
        return response

    def _set_cookie(self, request: Request, response: Response, value: str) -> None:
        root = root_of(request)
        # A proxy may have ended HTTPS before; the page that sent the form tells.
        is_secure = "https" in (request.scope.get("scheme"), request.headers.get("origin", "").partition(":")[0])
        response.set_cookie(
            COOKIE, value, max_age=LASTS, path=f"{root}/", httponly=True, samesite="strict", secure=is_secure
        )

    async def _refused(self, request: Request, error: HTTPException) -> Response:
        title = HTTPStatus(error.status_code).phrase
        said = "There is no such page." if error.detail == title and error.status_code == 404 else error.detail
        page = self._site.bare(request, "refused.html", error.status_code, title=title, said=said)
        page.headers.update(error.headers or {})
        return page

    async def _broken(self, request: Request, _: Exception) -> Response:
        said = "This is a fault of the dashboard. The log of the server says more; the command line does the same jobs: retrykit dlq."
        return self._site.bare(request, "refused.html", 500, title="Something broke", said=said)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        raise HTTPException(404)
    data, digest = asset(name)
    is_current = digest == request.path_params["digest"]
    age = "public, max-age=31536000, immutable" if is_current else "no-cache"
    return Response(data, media_type=_STATIC[name], headers={"cache-control": age})
