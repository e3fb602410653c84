# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What is done around the dead letters, as a checker sees it."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import assert_type

from retrykit import Dispatcher, ErrorClass, ErrorGroup
from retrykit.backends import MemoryBackend
from retrykit.dead_letter import DeadLetter
from retrykit.dead_letter_queue import AsyncDeadLetterQueue, DeadLetterQueue, RedrivePlan
from retrykit.deadletter import (
    Capture,
    Cipher,
    ImportReport,
    Retention,
    RetentionReport,
    export_letters,
    export_letters_async,
    import_letters,
    import_letters_async,
    message_of,
    payload_of,
)
from retrykit.message import Message
from retrykit.redrive import AsyncRedriver, Redriver
from retrykit.stores import AuditEntry, DeadLetterQuery, RedriveJob, as_async

backend = MemoryBackend()
letters, async_letters = backend.dead_letters, as_async(backend).dead_letters


class Vault:
    name = "vault"

    def encrypt(self, data: bytes) -> bytes:
        return data

    def decrypt(self, data: bytes) -> bytes:
        return data


class Half:
    name = "half"

    def encrypt(self, data: bytes) -> bytes:
        return data


def send(message: Message, key: str) -> str:
    return key


def redact(letter: DeadLetter) -> DeadLetter:
    return letter


def forgets(letter: DeadLetter) -> None: ...


cipher: Cipher = Vault()
capture = Capture(mask=["card.number"], hash_recipient="x" * 16, redact=redact, max_payload=1024, encrypt=cipher)
Capture(mask=("card.number", "**.email"), hash_recipient=b"x" * 16)
Capture(encrypt=Half())  # type: ignore[arg-type]
Capture(redact=forgets)  # type: ignore[arg-type]
Capture(["card.number"])  # type: ignore[call-arg]
assert_type(capture.hashed("ada@example.org"), str)
Dispatcher(send, backend=backend, capture=capture)
Dispatcher(send, backend=backend, capture="mask")  # type: ignore[call-overload]

retention = Retention(
    {ErrorClass.MAILBOX_FULL: "30d", ErrorGroup.INTERNAL: 90.0, "own": "1d"}, default="1d", quarantined="2d"
)
Retention({5: "30d"})  # type: ignore[dict-item]
assert_type(retention.apply(letters), RetentionReport)
retention.apply(async_letters)  # type: ignore[arg-type]

assert_type(export_letters(letters), Iterator[bytes])
assert_type(import_letters(letters, [b"", ""]), ImportReport)
with open("letters.jsonl", "rb") as file:
    import_letters(letters, file)
import_letters(letters, 5)  # type: ignore[arg-type]


def use(letter: DeadLetter) -> None:
    assert_type(capture.shown(letter), DeadLetter)
    assert_type(payload_of(letter), bytes)
    assert_type(message_of(letter, cipher), Message)


async def use_async() -> None:
    assert_type(await retention.apply_async(async_letters), RetentionReport)
    assert_type(export_letters_async(async_letters), AsyncIterator[bytes])
    assert_type(await import_letters_async(async_letters, export_letters_async(async_letters)), ImportReport)
    import_letters(letters, export_letters_async(async_letters))  # type: ignore[arg-type]


# Redrives.
bench = DeadLetterQueue(backend)
plan = bench.plan("campaign:spring", max_redrives=2)
assert_type(plan, RedrivePlan)
job = bench.redrive(plan, root_cause="repaired", by="ada", canary=5, rate=50, patience="15m")
assert_type(job, RedriveJob)
assert_type(Redriver(backend).step(job.id), RedriveJob)
assert_type(Redriver(backend).run(), RedriveJob | None)
assert_type(bench.edit("m#1", {"n": 1}, by="ada", why="typo"), DeadLetter)
assert_type(bench.discard("campaign:spring", by="ada", why="a test"), int)
bench.redrive(plan, by="ada")  # type: ignore[call-arg]
bench.redrive("campaign:spring", root_cause="x", by="ada")  # type: ignore[arg-type]
bench.discard("campaign:spring", by="ada")  # type: ignore[call-arg]
bench.edit("m#1", 3, by="ada", why="x")  # type: ignore[arg-type]
Redriver(as_async(backend))  # type: ignore[arg-type]


async def aredrive() -> None:
    abench = AsyncDeadLetterQueue(as_async(backend))
    aplan = await abench.plan(DeadLetterQuery(campaign_id="spring"))
    ajob = await abench.redrive(aplan, root_cause="repaired", by="ada")
    assert_type(await AsyncRedriver(as_async(backend)).step(ajob.id), RedriveJob)
    assert_type(await abench.stop(ajob.id, by="ada", why="enough"), RedriveJob)
    assert_type(await as_async(backend).redrives.audit(), Sequence[AuditEntry])
