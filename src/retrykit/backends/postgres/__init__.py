"""The PostgreSQL backend: all seven stores in one schema, for a fleet of processes and hosts.

Each operation is one statement, or a few of which each changes a row only as it was read, or one transaction. Time is the server's.
Nothing is kept in a session between operations, and statements are prepared only where a pool of the caller's does so by itself: PgBouncer
in transaction mode serves as well as a connection of one's own. The tables are made and brought to this version by `retrykit migrate`, or by `migrate=True`.

`PostgresBackend.using` gives the same stores within a transaction of the application's own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ...clock import Clock
from ...stores.backend import AsyncBackend, Backend
from ...stores.circuits import AsyncCircuitStore, CircuitStore
from ...stores.claims import AsyncClaimStore, ClaimStore
from ...stores.dead_letters import AsyncDeadLetterStore, DeadLetterStore
from ...stores.deliveries import AsyncDeliveryStore, DeliveryStore
from ...stores.implement import implement
from ...stores.redrives import AsyncRedriveStore, RedriveStore
from ...stores.retries import AsyncRetryStore, RetryStore
from ...stores.signals import AsyncSignalStore, SignalStore
from ...times import Duration, seconds
from .circuits import Circuits
from .claims import Claims
from .connections import AsyncConnections, Connections
from .database import AsyncDatabase, AsyncPool, Database, Pool, Schema
from .dead_letters import DeadLetters
from .deliveries import Deliveries
from .joined import AsyncJoined, Joined
from .redrives import Redrives
from .retries import Retries
from .signals import PostgresSignals
from .statements import begin_of
from .waking import told_if_due, told_if_due_async

if TYPE_CHECKING:
    import psycopg

__all__ = ["AsyncPostgresBackend", "PostgresBackend"]

S = TypeVar("S")

POOL_SIZE: Final = 10
"""Connections that a backend opens at the most, where it was given an address."""


def _store(contract: Callable[[], S], operations: object, run: Callable[..., Any]) -> S:
    """Make a store of a contract, in either colour: each primitive runs the operation of its name."""

    def forward(name: str) -> Callable[..., Any]:
        operation = getattr(operations, name)
        begin = begin_of(operation)

        def forwarded(_self: object, *args: object) -> Any:
            return run(partial(operation, *args), begin)

        return forwarded

    return implement(contract, "Postgres", forward)


class _Stores:
    """The seven stores, on whatever runs their operations.

    Args:
        run: runs one.
        is_joined: whether that is within transactions of the application's, which nothing is added to that makes others wait.
    """

    def __init__(self, run: Callable[..., Any], *, is_joined: bool) -> None:
        self.claims: ClaimStore = _store(ClaimStore, Claims(), run)
        self._queue = Retries(tells=not is_joined)
        self.retries: RetryStore = _store(RetryStore, self._queue, run)
        self.dead_letters: DeadLetterStore = _store(DeadLetterStore, DeadLetters(adds_up=not is_joined), run)
        self.deliveries: DeliveryStore = _store(DeliveryStore, Deliveries(), run)
        self.circuits: CircuitStore = _store(CircuitStore, Circuits(), run)
        self.redrives: RedriveStore = _store(RedriveStore, Redrives(), run)
        self.signals: SignalStore = _store(SignalStore, PostgresSignals(), run)


class _AsyncStores:
    """The seven stores for asynchronous callers."""

    def __init__(self, run: Callable[..., Any], *, is_joined: bool) -> None:
        self.claims: AsyncClaimStore = _store(AsyncClaimStore, Claims(), run)
        self._queue = Retries(tells=not is_joined)
        self.retries: AsyncRetryStore = _store(AsyncRetryStore, self._queue, run)
        self.dead_letters: AsyncDeadLetterStore = _store(AsyncDeadLetterStore, DeadLetters(adds_up=not is_joined), run)
        self.deliveries: AsyncDeliveryStore = _store(AsyncDeliveryStore, Deliveries(), run)
        self.circuits: AsyncCircuitStore = _store(AsyncCircuitStore, Circuits(), run)
        self.redrives: AsyncRedriveStore = _store(AsyncRedriveStore, Redrives(), run)
        self.signals: AsyncSignalStore = _store(AsyncSignalStore, PostgresSignals(), run)


class PostgresBackend(_Stores):
    """Seven stores in a schema of a PostgreSQL database, safe for many threads, processes and hosts.

    Args:
        pool_or_dsn: a pool of yours with a method `connection`, such as `psycopg_pool.ConnectionPool`, which stays yours; or an
            address as libpq takes it, for up to ten connections that the backend opens and closes itself.
        schema: where the tables are.
        clock: where the time comes from; None: the server.
        migrate: whether to make the tables, or bring them to this version, now.

    Raises:
        StoreUnavailableError: the server cannot be reached, or may only be read.
        SchemaVersionError: there are no tables, or they are of another version.
        MissingExtraError: psycopg is not installed.
        ConfigurationError: a value is not allowed, the server is older than PostgreSQL 14, or the database is not UTF8.
    """

    blocks = True
    """Calls wait for the server."""

    def __init__(
        self,
        pool_or_dsn: Pool | str,
        *,
        schema: str = "retrykit",
        clock: Clock | None = None,
        migrate: bool = False,
    ) -> None:
        self._own = Connections(pool_or_dsn, POOL_SIZE) if isinstance(pool_or_dsn, str) else None
        self._schema = Schema(schema, clock)
        self._database = Database(self._own or cast("Pool", pool_or_dsn), self._schema)
        try:
            if migrate:
                self._database.migrate()
            self._database.check()
        except BaseException:
            self.close()
            raise
        super().__init__(self._database.run, is_joined=False)

    def using(self, connection: psycopg.Connection[Any]) -> Backend:
        """Return a backend whose operations are part of the transaction on a connection of yours.

        What it writes is seen by others once you commit, and is gone when you roll back, together with your own changes. An operation
        that fails undoes itself and nothing else. Where another transaction is in the way, under an isolation level above READ
        COMMITTED, an operation raises `StoreUnavailableError`: repeat the transaction.

        Args:
            connection: to the same database. Under autocommit begin a transaction first.

        Returns:
            The seven stores. Closing it does nothing to the connection. The first operation looks at the schema once.

        Raises:
            ConfigurationError: it is no `psycopg.Connection`. What else is wrong with it is told by the first operation.
        """
        return _Joined(Joined(self._database, self._schema, connection).run, is_joined=True)

    def wait_for_due(self, most: Duration) -> bool:
        """Wait until a message in the retry queue may be due: for the first one, or for one that is put there meanwhile.

        One of the backend's connections is held meanwhile.

        Args:
            most: after which it returns in any case, > 0; more than ten seconds are ten.

        Returns:
            False at once where nobody can be told: behind PgBouncer in transaction mode, and with a pool of yours.

        Raises:
            StoreUnavailableError: the server cannot be reached, or goes away meanwhile.
            ConfigurationError: `most` is not allowed.
        """
        length = self._queue.longest_wait(seconds(most, "most", positive=True))
        return self._own is not None and told_if_due(self._own, self._schema, length)

    def close(self) -> None:
        """Close the connections that the backend opened. Using it afterwards opens new ones."""
        if self._own is not None:
            self._own.close()


class _Joined(_Stores):
    """The stores on a connection of the application's."""

    blocks = False
    """The connection waits in its own thread, for these calls as for the application's own."""

    def close(self) -> None:
        """Do nothing: the connection is the application's."""


class AsyncPostgresBackend(_AsyncStores):
    """`PostgresBackend` for asynchronous callers under asyncio. Under trio use ``as_async(PostgresBackend(...))``.

    Args:
        pool_or_dsn: as for `PostgresBackend`; a pool is an asynchronous one, such as `psycopg_pool.AsyncConnectionPool`.
        schema: where the tables are; whether they are of this version is seen by the first operation.
        clock: where the time comes from; None: the server.

    Raises:
        ConfigurationError: a value is not allowed.
        MissingExtraError: psycopg is not installed.
    """

    def __init__(self, pool_or_dsn: AsyncPool | str, *, schema: str = "retrykit", clock: Clock | None = None) -> None:
        self._own = AsyncConnections(pool_or_dsn, POOL_SIZE) if isinstance(pool_or_dsn, str) else None
        self._schema = Schema(schema, clock)
        self._database = AsyncDatabase(self._own or cast("AsyncPool", pool_or_dsn), self._schema)
        super().__init__(self._database.run, is_joined=False)

    def using(self, connection: psycopg.AsyncConnection[Any]) -> AsyncBackend:
        """Return a backend whose operations are part of the transaction on a connection of yours, as `PostgresBackend.using`.

        Args:
            connection: to the same database. Under autocommit begin a transaction first.

        Raises:
            ConfigurationError: it is no `psycopg.AsyncConnection`.
        """
        return _AsyncJoined(AsyncJoined(self._database, self._schema, connection).run, is_joined=True)

    async def wait_for_due(self, most: Duration) -> bool:
        """As `PostgresBackend.wait_for_due`."""
        length = self._queue.longest_wait(seconds(most, "most", positive=True))
        return self._own is not None and await told_if_due_async(self._own, self._schema, length)

    async def aclose(self) -> None:
        """Close the connections that the backend opened. Using it afterwards opens new ones."""
        if self._own is not None:
            await self._own.aclose()


class _AsyncJoined(_AsyncStores):
    """The stores on a connection of the application's, for asynchronous callers."""

    async def aclose(self) -> None:
        """Do nothing: the connection is the application's."""
