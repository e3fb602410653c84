# pyright: reportUnnecessaryTypeIgnoreComment=true
"""The stores of both colours, as a checker sees them: the wrong colour and an overridden final method do not type."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import assert_never, assert_type

from retrykit.backends import MemoryBackend, open_async_backend, open_backend
from retrykit.message import Message
from retrykit.stores import (
    AsyncBackend,
    AsyncCircuitStore,
    Backend,
    CircuitStore,
    Claimed,
    ClaimRecord,
    DeadLetterGroup,
    DeadLetterQuery,
    DeadLetterStats,
    Done,
    DueMessage,
    InProgress,
    NotDue,
    Pause,
    Replaced,
    Suspect,
    Unknown,
    as_async,
)

SINCE = datetime(2026, 1, 1, tzinfo=UTC)

backend = open_backend("memory://")
assert_type(backend, Backend)
assert_type(open_async_backend("memory://"), AsyncBackend)
memory: Backend = MemoryBackend()
wrong: AsyncBackend = MemoryBackend()  # type: ignore[assignment]
assert_type(as_async(memory), AsyncBackend)
as_async(as_async(memory))  # type: ignore[arg-type]


def claim(backend: Backend) -> ClaimRecord | None:
    answer = backend.claims.claim("m-1", owner="worker")
    match answer:
        case Claimed(record) | Unknown(record) | Done(record) | Replaced(record) | Suspect(record):
            return record
        case NotDue(_, due_at) | InProgress(_, due_at):
            assert_type(due_at, datetime)
            return None
        case _:
            assert_never(answer)


def misuse(backend: Backend, due: datetime) -> None:
    backend.claims.claim(3, owner="worker")  # type: ignore[arg-type]
    backend.claims.claim("m-1")  # type: ignore[call-arg]
    backend.claims.claim("m-1", "worker")  # type: ignore[call-arg]
    backend.retries.schedule("m-1", due)  # type: ignore[arg-type]
    backend.retries.schedule(Message("m-1", None), 3.0)  # type: ignore[arg-type]
    backend.dead_letters.top("recipient")  # type: ignore[arg-type]
    backend.dead_letters.search("campaign:spring")  # type: ignore[arg-type]
    backend.dead_letters.groups(order="total")  # type: ignore[arg-type]
    backend.dead_letters.annotate("v1:x", note="n")  # type: ignore[call-arg]
    backend.dead_letters.trend(step="1h")  # type: ignore[call-arg]
    DeadLetterQuery("spring")  # type: ignore[call-arg]


def letters(backend: Backend) -> None:
    query = DeadLetterQuery.parse("campaign:spring since:2h")
    assert_type(query, DeadLetterQuery)
    assert_type(backend.dead_letters.groups(query, order="matching").groups, Sequence[DeadLetterGroup])
    assert_type(backend.dead_letters.group("v1:x"), DeadLetterGroup | None)
    assert_type(backend.dead_letters.annotate("v1:x", by="ada", muted=SINCE), DeadLetterGroup | None)
    assert_type(backend.dead_letters.trend(query, step="15m").counts, Sequence[int])
    assert_type(backend.dead_letters.stats(), DeadLetterStats)
    assert_type(backend.dead_letters.top("stage", query=query), Sequence[tuple[str, int]])
    backend.circuits.pause("campaign:spring")  # type: ignore[call-arg]


async def both_colours(backend: AsyncBackend) -> None:
    assert_type(await backend.retries.claim_due(owner="worker"), Sequence[DueMessage])
    assert_type(await backend.claims.get("m-1"), ClaimRecord | None)
    backend.claims.get("m-1").seq  # type: ignore[attr-defined]  # not awaited


class Circuits(CircuitStore):
    def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        return Pause(key=key, reason=reason, by=by, since=SINCE, until=until)

    def _resume(self, key: str) -> bool:
        return False

    def _pauses(self) -> Sequence[Pause]:
        return ()


class Coloured(Circuits):
    async def _resume(self, key: str) -> bool:  # type: ignore[override]  # an async primitive in a sync store
        return False


class Overridden(Circuits):
    def resume(self, key: str) -> bool:  # type: ignore[misc]  # final
        return False


class AsyncCircuits(AsyncCircuitStore):
    async def _pause(self, key: str, reason: str, by: str, until: datetime | None) -> Pause:
        return Pause(key=key, reason=reason, by=by, since=SINCE, until=until)

    def _resume(self, key: str) -> bool:  # type: ignore[override]  # a sync primitive in an async store
        return False


Circuits()  # type: ignore[abstract]  # primitives are missing
AsyncCircuits()  # type: ignore[abstract]
