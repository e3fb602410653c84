"""What a monitor takes and gives, and what it does not take."""

from collections.abc import Sequence
from typing import assert_type

from retrykit import Dispatcher
from retrykit.backends import MemoryBackend
from retrykit.monitor import (
    Alert,
    AsyncMonitor,
    BreakerOpens,
    DeadLettersJump,
    LogNotifier,
    Monitor,
    WebhookNotifier,
    prometheus_rules,
)
from retrykit.stores import as_async

backend = MemoryBackend()
told = list[Alert]()
monitor = Monitor(
    backend,
    notifiers=[LogNotifier(), WebhookNotifier("https://host", form="slack"), told.append],
    rules=[DeadLettersJump(window="10m", severity="ticket"), BreakerOpens(primary=["ses"])],
    interval="30s",
)
Dispatcher(lambda message, key: None, backend=backend, on_event=[monitor])
assert_type(monitor.run_once(), Sequence[Alert])
assert_type(prometheus_rules(), str)

Monitor(backend, rules=[print])  # type: ignore[list-item]
Monitor(as_async(backend))  # type: ignore[arg-type]
WebhookNotifier("https://host", form="xml")  # type: ignore[arg-type]


async def page(alert: Alert) -> None: ...


async def watch() -> None:
    amonitor = AsyncMonitor(as_async(backend), notifiers=[page, told.append])
    assert_type(await amonitor.run_once(), Sequence[Alert])
    AsyncMonitor(backend)  # type: ignore[arg-type]
