"""What the suites of all contracts have in common: how a store is made, in which colours, and what it declares to be able to.

A suite is subclassed in a test module with one method, `make_store`. Where that is a coroutine function the store is an
asynchronous one, and each test runs under asyncio and, where it is installed, under trio.
"""

from __future__ import annotations

import importlib.util
import inspect
import secrets
from collections.abc import Awaitable, Callable, Generator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, cast

import attrs
import pytest

from ...clock import Clock
from ...errors import ConfigurationError
from ...stores import (
    AsyncCircuitStore,
    AsyncClaimStore,
    AsyncDeadLetterStore,
    AsyncDeliveryStore,
    AsyncRedriveStore,
    AsyncRetryStore,
    AsyncSignalStore,
    CircuitStore,
    ClaimStore,
    DeadLetterStore,
    DeliveryStore,
    RedriveStore,
    RetryStore,
    SignalStore,
)
from ..clock import ManualClock
from .colours import COLOURS, Driven, Loop

__all__ = ["FEATURES", "Place", "StoreSuite", "SuiteClock", "needs"]

S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., object])

FEATURES: Final = {
    "reopen": "a store made again at the same place finds everything; it is kept when its process dies",
    "processes": "several processes may use it at once",
    "fork": "it may be used in a forked child, and goes on working in the parent",
    "megabyte": "payloads of a megabyte are kept",
    "surrogates": "lone surrogates in text that is no key come back as they were",
}
"""What a store may be able to, beyond its contract."""

_FORMS: Final = {
    "claims": (ClaimStore, AsyncClaimStore),
    "retries": (RetryStore, AsyncRetryStore),
    "dead_letters": (DeadLetterStore, AsyncDeadLetterStore),
    "deliveries": (DeliveryStore, AsyncDeliveryStore),
    "circuits": (CircuitStore, AsyncCircuitStore),
    "redrives": (RedriveStore, AsyncRedriveStore),
    "signals": (SignalStore, AsyncSignalStore),
}

CONTRACTS: Final = ("claims", "retries", "dead_letters", "deliveries", "circuits", "redrives", "signals")
"""The names of a backend's stores."""


@attrs.frozen
class Place:
    """Where the store of one test lives. Whoever opens the same place again finds the same data."""

    folder: Path
    """A folder of its own, which exists."""
    name: str
    """A name of its own, of lower-case letters and digits: for a prefix, a schema, a database."""
    clock: Clock
    """By which the store has to tell the time."""


class BrokenClockError(Exception):
    """The clock was made to fail."""


class SuiteClock(ManualClock):
    """A clock that stands still until it is moved, and may be told to fail in the middle of an operation."""

    def __init__(self) -> None:
        super().__init__()
        self.fails_at: int | None = None
        """Which of the next readings fails, counted from 1; None: none does."""

    def now(self) -> Any:
        """Return the instant it stands at.

        Raises:
            BrokenClockError: it was told to fail.
        """
        if self.fails_at is not None:
            self.fails_at -= 1
            if self.fails_at == 0:
                self.fails_at = None
                raise BrokenClockError
        return super().now()


Fresh: TypeAlias = Callable[[], AbstractContextManager[tuple[S, SuiteClock]]]
"""Opens an empty store, with a clock of its own."""


def needs(*features: str) -> Callable[[F], F]:
    """Mark a test of a suite that is collected only where the store declares `features`."""

    def mark(test: F) -> F:
        test.__retrykit_needs__ = frozenset(features)  # type: ignore[attr-defined]
        return test

    return mark


def _needed(test: object) -> frozenset[str]:
    nothing: frozenset[str] = frozenset()
    return cast("frozenset[str]", getattr(test, "__retrykit_needs__", nothing))


class StoreSuite(Generic[S]):
    """Base of the suites. Subclass one of them, not this."""

    features: ClassVar[AbstractSet[str]] = frozenset()
    """What the store is able to beyond its contract: any of "reopen", "processes", "fork", "megabyte", "surrogates"."""

    contract: ClassVar[str]
    """Which of a backend's seven stores this is: "claims", "retries", "dead_letters", "deliveries", "circuits", "redrives" or "signals"."""

    is_async: ClassVar[bool] = False
    """Whether `make_store` is a coroutine function; set by the class itself."""

    def make_store(self, place: Place) -> Any:
        """Return an empty store at a new place, or one that finds the data that is at the place already.

        Args:
            place: where it lives, and the clock by which it has to tell the time.

        Returns:
            The store, or a whole backend that has it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no make_store(self, place), which returns the store")

    def close_store(self, store: Any) -> object:
        """Close what `make_store` returned, by its `close` or `aclose` where it has one. Override it for more than that.

        Returns:
            Nothing, or an awaitable for an asynchronous store.
        """
        close = getattr(store, "aclose", None) or getattr(store, "close", None)
        return None if close is None else close()

    def wait_for_killed(self, pid: int) -> None:
        """Wait until nothing comes any more of what a process that was killed had begun to do.

        Override it for a store with a server, which may do the last that it was asked for some time after its client is gone.

        Args:
            pid: which process that was; it is gone.
        """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        unknown = set(cls.features) - set(FEATURES)
        if unknown:
            raise ConfigurationError(
                f"{cls.__name__}.features names {', '.join(sorted(map(repr, unknown)))}; allowed are {', '.join(FEATURES)}"
            )
        if not any("make_store" in vars(base) for base in cls.__mro__ if base is not StoreSuite):
            return  # the suite of a contract, not that of a store
        if not hasattr(cls, "contract"):
            raise ConfigurationError(
                f"{cls.__name__} proves nothing: subclass the suite of a contract, for example ClaimStoreSuite, not StoreSuite"
            )
        cls.is_async = inspect.iscoroutinefunction(cls.make_store)
        possible = {*cls.features, "async" if cls.is_async else "sync"}
        for name in dir(cls):
            if name.startswith("test_"):
                test = cls._defined(name)
                setattr(cls, name, test if _needed(test) <= possible else None)  # pytest collects what can be called

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test of an asynchronous store under every loop that is installed."""
        if "colour" in metafunc.fixturenames and self.is_async:
            metafunc.parametrize("colour", [name for name in COLOURS if importlib.util.find_spec(name) is not None])

    @classmethod
    def _defined(cls, name: str) -> object:
        """Return a test as its suite defines it, also where it is not collected."""
        return next((vars(base)[name] for base in cls.__mro__ if vars(base).get(name) is not None), None)

    @pytest.fixture
    def colour(self) -> str:
        """Return the name of the loop; that of a synchronous store is "none"."""
        return "none"

    @pytest.fixture
    def loop(self, colour: str) -> Generator[Loop | None]:
        """Run a loop for the test."""
        loop = COLOURS[colour]() if colour in COLOURS else None
        yield loop
        if loop is not None:
            loop.close()

    @pytest.fixture
    def clock(self) -> SuiteClock:
        """Return the clock of the test's stores."""
        return SuiteClock()

    @pytest.fixture
    def places(self, tmp_path: Path) -> Callable[[Clock], Place]:
        """Return a function that makes new places."""

        def make(clock: Clock) -> Place:
            name = f"t{secrets.token_hex(6)}"
            folder = tmp_path / name
            folder.mkdir()
            return Place(folder, name, clock)

        return make

    @pytest.fixture
    def place(self, places: Callable[[Clock], Place], clock: SuiteClock) -> Place:
        """Return the place of the test's store."""
        return places(clock)

    @pytest.fixture
    def opened(self, loop: Loop | None) -> Generator[Callable[[Place], S]]:
        """Return a function that opens the store at a place, in the form that tests call; all are closed afterwards."""
        with ExitStack() as stack:
            yield lambda place: stack.enter_context(opened_at(self, place, loop))

    @pytest.fixture
    def store(self, opened: Callable[[Place], S], place: Place) -> S:
        """Return an empty store, in the form that tests call."""
        return opened(place)

    @pytest.fixture
    def fresh(self, loop: Loop | None, places: Callable[[Clock], Place]) -> Fresh[S]:
        """Return a function that opens an empty store with a clock of its own, for each example of a property."""

        @contextmanager
        def open_and_close() -> Generator[tuple[S, SuiteClock]]:
            clock = SuiteClock()
            with opened_at(self, places(clock), loop) as store:
                yield store, clock

        return open_and_close

    def test_every_declared_feature_has_its_tests(self, request: pytest.FixtureRequest) -> None:
        """What a store declares is tested: no test of it was taken out, skipped or expected to fail."""
        collector = request.node.getparent(pytest.Class)
        collected = {getattr(item, "originalname", item.name): item for item in collector.collect()}
        for feature in self.features:
            for name in (name for name in dir(self) if feature in _needed(self._defined(name))):
                assert name in collected, f"{feature!r} is declared, and its test {name} was not collected"
                marks = {mark.name for mark in collected[name].iter_markers()}
                assert not marks & {"skip", "skipif", "xfail"}, f"{feature!r} is declared, and {name} may be left out"


@contextmanager
def opened_at(suite: StoreSuite[S], place: Place, loop: Loop | None) -> Generator[S]:
    """Open the store at a place and close it afterwards, in the form that tests call: an asynchronous one driven by `loop`."""
    with all_opened_at(suite, place, loop) as stores:
        yield cast("S", stores[suite.contract])


@contextmanager
def all_opened_at(suite: StoreSuite[Any], place: Place, loop: Loop | None) -> Generator[Mapping[str, Any]]:
    """Open what the suite makes, as `opened_at` does, and give all its stores by contract: seven of a backend."""
    made = suite.make_store(place) if loop is None else loop.call(suite.make_store, place)
    found = {name: getattr(made, name, None) for name in CONTRACTS}  # a circuit store has a method `circuits`
    stores = {
        suite.contract: made,
        **{n: store for n, store in found.items() if store is not None and not callable(store)},
    }
    _check_made(suite, made, stores[suite.contract], is_async=loop is not None)
    try:
        yield stores if loop is None else {name: Driven(store, loop) for name, store in stores.items()}
    finally:
        closing = suite.close_store(made)
        if loop is not None and inspect.isawaitable(closing):
            loop.call(_awaited, closing)


def _check_made(suite: StoreSuite[Any], made: object, store: object, *, is_async: bool) -> None:
    """Say at once, and not by what it lacks, that `make_store` gave something else."""
    synchronous, asynchronous = _FORMS[suite.contract]
    wanted = asynchronous if is_async else synchronous
    assert isinstance(store, wanted), (
        f"make_store of {type(suite).__name__} gave {made!r}; allowed is a {synchronous.__name__}, or from a coroutine "
        f"function an {asynchronous.__name__}, or a backend that has one"
    )


async def _awaited(awaitable: Awaitable[object]) -> None:
    await awaitable
