# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Lines that must and must not type: exporters and what ends a process."""

import asyncio
from typing import assert_type

from retrykit import Dispatcher, Message, open_async_backend, open_backend, retry
from retrykit.events import Listener
from retrykit.exporters.gauges import BackendGauges
from retrykit.exporters.logs import LogListener
from retrykit.exporters.opentelemetry import OpenTelemetryExporter
from retrykit.exporters.prometheus import PrometheusExporter
from retrykit.exporters.tracing import traced, traced_send
from retrykit.worker import exit_on_crash


def fetch(url: str, *, size: int = 1) -> bytes:
    """Return the page."""
    return url.encode() * size


async def fetch_async(url: str) -> bytes:
    """Return the page."""
    return url.encode()


def send(message: Message, key: str) -> str:
    """Send it."""
    return key


def tracing() -> None:
    """A traced function has the parameters and the result of the function."""
    traced_fetch = traced(retry(on=ConnectionError, attempts=3))(fetch)
    assert_type(traced_fetch("x", size=2), bytes)
    traced_fetch(1)  # type: ignore[arg-type]
    traced_send(3)  # type: ignore[type-var]
    Dispatcher(traced_send(send), backend=open_backend("memory://"))


async def tracing_async() -> None:
    """A coroutine function stays one."""
    traced_fetch = traced(retry(on=ConnectionError, attempts=3))(fetch_async)
    assert_type(await traced_fetch("x"), bytes)


def exporting() -> None:
    """Exporters are listeners; gauges are of synchronous backends."""
    exporters: list[Listener] = [LogListener(), PrometheusExporter(), OpenTelemetryExporter()]
    Dispatcher(send, backend=open_backend("memory://"), on_event=exporters)
    gauges = BackendGauges(open_backend("memory://"), fresh="1m")
    PrometheusExporter().watch(gauges)
    BackendGauges(open_async_backend("memory://"))  # type: ignore[arg-type]


async def crashing() -> None:
    """What is added or watched comes back as it is."""
    with exit_on_crash(cleanup=[print], limit="3s") as crash:
        crash.watch()
        task = crash.watch_task(asyncio.create_task(fetch_async("x")))
        assert_type(await task, bytes)
        assert_type(crash.add(tracing)(), None)
