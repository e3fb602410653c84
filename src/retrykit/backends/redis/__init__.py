"""The Redis and Valkey backend: all seven stores on one server, for a fleet of processes on many machines.

Each step of an operation is one Lua script, so it is atomic, and may be repeated: a client may retry commands by itself. Time is the
server's, so that no worker's clock matters. The keys of each store share a hash tag: in a cluster a store lives on one node.

The server is asked for nothing beyond Redis 6.2. What it keeps must not be evicted, and is as safe as its persistence;
`retrykit doctor` looks at both.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from ...clock import Clock
from ...errors import ConfigurationError, MissingExtraError
from ...stores.circuits import AsyncCircuitStore, CircuitStore
from ...stores.claims import AsyncClaimStore, ClaimStore
from ...stores.dead_letters import AsyncDeadLetterStore, DeadLetterStore
from ...stores.deliveries import AsyncDeliveryStore, DeliveryStore
from ...stores.redrives import AsyncRedriveStore, RedriveStore
from ...stores.retries import AsyncRetryStore, RetryStore
from ...stores.signals import AsyncSignalStore, SignalStore
from ..urls import shown
from .circuits import Circuits
from .claims import Claims
from .commands import Space
from .dead_letters import DeadLetters
from .deliveries import Deliveries
from .drivers import Client, bound, driver, driver_async
from .redrives import Redrives
from .retries import Retries
from .signals import SignalRecords

__all__ = ["AsyncRedisBackend", "RedisBackend", "connect"]

DEFAULT_PREFIX: Final = "retrykit"

_PREFIX: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class _Flows:
    """The flows of the seven stores."""

    def __init__(self, prefix: str, clock: Clock | None) -> None:
        if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
            raise ConfigurationError(f"the prefix is {prefix!r}; allowed are 1 to 64 letters, digits and any of '_.:-'")
        self.claims: Final = Claims(Space(prefix, "claims", clock))
        self.retries: Final = Retries(Space(prefix, "retries", clock))
        self.dead_letters: Final = DeadLetters(Space(prefix, "dead_letters", clock))
        self.deliveries: Final = Deliveries(Space(prefix, "deliveries", clock))
        self.circuits: Final = Circuits(Space(prefix, "circuits", clock))
        self.redrives: Final = Redrives(Space(prefix, "redrives", clock))
        self.signals: Final = SignalRecords(Space(prefix, "signals", clock))


class RedisBackend:
    """Seven stores on a Redis or Valkey server, safe for many threads, processes and machines.

    Args:
        client: redis-py's ``Redis`` (also one of Sentinel's ``master_for``) or ``RedisCluster``; it is yours, and stays open.
        prefix: what all keys begin with, 1 to 64 letters, digits and any of ``_.:-``; backends that share it share their data.
        clock: where the time comes from; None: the server, unless a clock that is not the system's is in force.

    Raises:
        ConfigurationError: the prefix is not allowed, or the client is an asynchronous one.
    """

    blocks = True
    """Calls wait for the server."""

    def __init__(self, client: Client, prefix: str = DEFAULT_PREFIX, *, clock: Clock | None = None) -> None:
        if _is_async(client):
            raise ConfigurationError(
                f"{type(client).__name__} is an asynchronous client; use it with AsyncRedisBackend"
            )
        flows, run = _Flows(prefix, clock), driver(client)
        self.client: Final = client
        self.claims: ClaimStore = bound(ClaimStore, flows.claims, run)
        self.retries: RetryStore = bound(RetryStore, flows.retries, run)
        self.dead_letters: DeadLetterStore = bound(DeadLetterStore, flows.dead_letters, run)
        self.deliveries: DeliveryStore = bound(DeliveryStore, flows.deliveries, run)
        self.circuits: CircuitStore = bound(CircuitStore, flows.circuits, run)
        self.redrives: RedriveStore = bound(RedriveStore, flows.redrives, run)
        self.signals: SignalStore = bound(SignalStore, flows.signals, run)
        self._owned: Any = None

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None) -> RedisBackend:
        """Connect to a server, and return a backend that closes this connection with itself.

        Args:
            url: as for `retrykit.open_backend`.
            clock: as for the backend.

        Raises:
            MissingExtraError: redis-py is not installed.
            ConfigurationError: the URL is not allowed.
        """
        client, prefix = connect(url, "redis")
        backend = cls(client, prefix, clock=clock)
        backend._owned = client
        return backend

    def close(self) -> None:
        """Close the connections that `from_url` has opened; a client that was passed in stays open."""
        if self._owned is not None:
            self._owned.close()


class AsyncRedisBackend:
    """`RedisBackend` for asynchronous callers under asyncio, on a client of ``redis.asyncio``.

    Under trio, for which redis-py has no client, use `retrykit.stores.as_async` on a `RedisBackend`.

    Args:
        client: ``redis.asyncio``'s ``Redis`` or ``RedisCluster``; it is yours, and stays open.
        prefix: as for `RedisBackend`.
        clock: as for `RedisBackend`.

    Raises:
        ConfigurationError: the prefix is not allowed, or the client is a synchronous one.
    """

    def __init__(self, client: Client, prefix: str = DEFAULT_PREFIX, *, clock: Clock | None = None) -> None:
        if not _is_async(client):
            raise ConfigurationError(f"{type(client).__name__} is a synchronous client; use it with RedisBackend")
        flows, run = _Flows(prefix, clock), driver_async(client)
        self.client: Final = client
        self.claims: AsyncClaimStore = bound(AsyncClaimStore, flows.claims, run)
        self.retries: AsyncRetryStore = bound(AsyncRetryStore, flows.retries, run)
        self.dead_letters: AsyncDeadLetterStore = bound(AsyncDeadLetterStore, flows.dead_letters, run)
        self.deliveries: AsyncDeliveryStore = bound(AsyncDeliveryStore, flows.deliveries, run)
        self.circuits: AsyncCircuitStore = bound(AsyncCircuitStore, flows.circuits, run)
        self.redrives: AsyncRedriveStore = bound(AsyncRedriveStore, flows.redrives, run)
        self.signals: AsyncSignalStore = bound(AsyncSignalStore, flows.signals, run)
        self._owned: Any = None

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None) -> AsyncRedisBackend:
        """Make a client of a server, and return a backend that closes it with itself, as `RedisBackend.from_url`."""
        client, prefix = connect(url, "redis.asyncio")
        backend = cls(client, prefix, clock=clock)
        backend._owned = client
        return backend

    async def aclose(self) -> None:
        """Close the connections that `from_url` has opened; a client that was passed in stays open."""
        if self._owned is not None:
            await self._owned.aclose()


def _is_async(client: Client) -> bool:
    return inspect.iscoroutinefunction(client.execute_command)


def connect(url: str, module: str) -> tuple[Any, str]:
    """Return a client of redis-py's for a URL, and the prefix that it names.

    Args:
        url: as for `retrykit.open_backend`.
        module: where its class ``Redis`` stands: ``redis`` or ``redis.asyncio``.

    Raises:
        MissingExtraError: redis-py is not installed.
        ConfigurationError: the URL is not allowed.
    """
    try:
        library = importlib.import_module(module)
    except ModuleNotFoundError:
        raise MissingExtraError("redis", "redis") from None
    try:
        own, prefix = _split(url)
        return library.Redis.from_url(own), prefix
    except (TypeError, ValueError) as error:
        said = str(error)
        why = said if said.startswith("Invalid value for") else "a part is wrong, or stands where it is not allowed"
        raise ConfigurationError(  # other errors quote what may be a part of the password
            f"the URL {shown(url)} cannot be read: {why}; allowed is what redis-py takes; in a password write '/', '?', '#', '@' "
            "and ':' as '%2F', '%3F', '%23', '%40' and '%3A'"
        ) from None


def _split(url: str) -> tuple[str, str]:
    """Return a URL as redis-py takes it, and the prefix that it names by ``?prefix=``."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    prefix = dict(options).get("prefix", DEFAULT_PREFIX)
    rest = urlencode([each for each in options if each[0] != "prefix"])
    scheme = parts.scheme.replace("valkey", "redis")
    return f"{scheme}://{parts.netloc}{parts.path}{'?' if rest else ''}{rest}", prefix
