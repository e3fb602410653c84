"""`retrykit dashboard`: look at a backend in a browser."""

from __future__ import annotations

import asyncio
import errno
import socket
import stat
from collections.abc import Mapping
from contextlib import AsyncExitStack, aclosing, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..backends import open_async_backend, open_backend
from ..backends.migrations import planned
from ..deadletter import Cipher
from ..errors import MissingExtraError
from .backend import given, there, with_backend
from .imports import cipher_option
from .output import Unusable, by_user, usable

if TYPE_CHECKING:
    from ..dashboard import Operator
    from ..stores import AsyncBackend, Backend

__all__ = ["dashboard"]


@click.command()
@with_backend
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen at; others need --token-file."
)
@click.option("--port", type=click.IntRange(0, 65_535), default=8025, show_default=True, help="0: any that is free.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="RETRYKIT_DASHBOARD_TOKEN_FILE",
    help="Who may sign in, a line each: viewer or operator, a name, and a token of 16 characters and more.",
)
@click.option("--read-only", is_flag=True, help="Let nobody change anything.")
@click.option(
    "--detach-redrives",
    is_flag=True,
    help="Leave redrives to the Redrivers of your services, instead of running them here.",
)
@cipher_option
@by_user
def dashboard(
    url: str | None,
    host: str,
    port: int,
    token_file: Path | None,
    read_only: bool,
    detach_redrives: bool,
    cipher: Cipher | None,
    by: str,
) -> None:
    """Look at dead letters, redrives, breakers and deliveries in a browser, until Ctrl-C.

    Without --token-file only this machine itself is let in, and acts in the name of --by. Elsewhere put it behind HTTPS.
    """
    try:
        import uvicorn

        from ..dashboard import Dashboard, Operator, Role
        from ..dashboard.access import is_loopback
    except ImportError as error:
        missing = (
            error if isinstance(error, MissingExtraError) else MissingExtraError("dashboard", error.name or "uvicorn")
        )
        raise Unusable(str(missing)) from None
    tokens = None if token_file is None else _tokens(token_file)
    if tokens is None and not is_loopback(host):
        raise click.UsageError(f"--host {host} is open to other machines; say with --token-file who may sign in")
    url = there(url)
    is_file = url.startswith("sqlite:")
    if read_only and is_file:
        with usable():
            tables = planned(url)
        if tables.statements:
            raise Unusable(
                f"the tables are of version {tables.found}, and to open the file would bring them to version {tables.version}; "
                "with --read-only nothing is changed: run retrykit migrate first"
            )

    async def serve(listener: socket.socket) -> None:
        async with AsyncExitStack() as stack:
            backend: Backend | AsyncBackend
            if is_file:  # the dashboard reads it in one thread and writes in another
                backend = stack.enter_context(closing(open_backend(url)))
            else:
                backend = await stack.enter_async_context(aclosing(open_async_backend(url)))
            app = Dashboard(
                backend,
                tokens=tokens,
                local=Operator(by, Role.OPERATOR),
                read_only=read_only,
                run_redrives=not detach_redrives,
                options=given("url"),
                cipher=cipher,
            )
            shown = f"[{host}]" if ":" in host else host
            click.echo(f"the dashboard is at http://{shown}:{listener.getsockname()[1]}/ (Ctrl-C ends it)")
            # No access log: addresses hold queries, and those hold recipients. No headers of proxies: who is local, the socket tells.
            config = uvicorn.Config(
                app, log_level="warning", access_log=False, proxy_headers=False, server_header=False
            )
            await uvicorn.Server(config).serve(sockets=[listener])

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        why = (
            "it is in use; give another one, or --port 0 for any that is free"
            if error.errno == errno.EADDRINUSE
            else error.strerror
        )
        raise Unusable(f"the dashboard cannot listen at port {port} of {host}: {why}") from None
    with listener, suppress(KeyboardInterrupt), usable():
        asyncio.run(serve(listener))


def _tokens(file: Path) -> Mapping[str, Operator]:
    """Return who has which token."""
    from ..dashboard import Operator, Role
    from ..dashboard.access import LEAST_TOKEN

    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        raise Unusable(
            f"the token file {str(file)!r} can be read by others; allowed is one for its owner alone: chmod 600"
        )
    tokens = dict[str, Operator]()
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3 or words[0] not in list(Role) or len(words[2]) < LEAST_TOKEN:
            raise Unusable(
                f"line {number} of the token file {str(file)!r} cannot be read; allowed is viewer or operator, a name without spaces, and a "
                f"token of {LEAST_TOKEN} characters and more"
            )
        tokens[words[2]] = Operator(words[1], Role(words[0]))
    if not tokens:
        raise Unusable(f"the token file {str(file)!r} names nobody")
    return tokens
