"""The retry budget: retries are paid for by successes, so that they cannot keep an overloaded system down.

One budget is one object: share it between the functions that call the same thing, synchronous and asynchronous ones alike. A
call that succeeds costs nothing while the budget is full.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final, cast

from .clock import Clock, current_clock
from .errors import ConfigurationError
from .failure import ErrorClass, ErrorGroup, Failure
from .machines.budget import Tokens, thousandths
from .retrying.functions import check_parts

__all__ = ["RetryBudget"]

_LIMIT: Final = 1e9


class RetryBudget:
    """A purse of tokens that successes fill and retries empty.

    The default lets one call in ten be a retry over time, a hundred of them at once, and one a second whatever happens.

    Args:
        capacity: tokens that it holds at the most, > 0; it begins full.
        per_success: tokens that a success brings, >= 0.
        cost: tokens of a retry, > 0; or the costs by error class or group, for example `{ErrorGroup.THROTTLING: 0.5}`: what is
            not named costs 1.
        refunds: whether a retry that succeeds gives its cost back, instead of bringing `per_success`.
        cut_off: the share of the capacity at or below which nothing is handed out, from 0 to below 1.
        floor: retries a second that are granted although it is empty, >= 0.
        charges_every_failure: whether each failure costs tokens, retried or not, as gRPC's retry throttling does.
        clock: where the time comes from; None: the clock in force.

    Raises:
        ConfigurationError: a value is not allowed.

    Example:
        >>> budget = RetryBudget(capacity=1, floor=0)
        >>> budget.take(), budget.take()
        (True, False)
    """

    def __init__(
        self,
        *,
        capacity: float = 100.0,
        per_success: float = 0.1,
        cost: float | Mapping[ErrorClass | ErrorGroup, float] = 1.0,
        refunds: bool = False,
        cut_off: float = 0.0,
        floor: float = 1.0,
        charges_every_failure: bool = False,
        clock: Clock | None = None,
    ) -> None:
        check_parts(clock=clock)
        costs = cast("Mapping[ErrorClass | ErrorGroup, float]", cost if isinstance(cost, Mapping) else {})
        for key in costs:
            if not isinstance(key, (ErrorClass, ErrorGroup)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"a cost is given for {key!r}; allowed are error classes and groups")
        self._costs: dict[ErrorClass | ErrorGroup, int] = {
            key: thousandths(_number(value, f"the cost of {key}", above=True)) for key, value in costs.items()
        }
        self._cost = thousandths(1.0 if isinstance(cost, Mapping) else _number(cost, "cost", above=True))
        self._refunds = refunds
        self._clock = clock
        whole = thousandths(_number(capacity, "capacity", above=True))
        share = _number(cut_off, "cut_off")
        if share >= 1:
            raise ConfigurationError(f"cut_off is {cut_off!r}; allowed are shares from 0 to below 1")
        self._tokens = Tokens(
            whole,
            thousandths(_number(per_success, "per_success")),
            cut_off=int(whole * share),
            floor=_number(floor, "floor"),
            charges_every_failure=charges_every_failure,
        )
        self._lock = threading.Lock()
        self._tally: Callable[[], int] = count().__next__
        self._tallied = 0
        self.note: Callable[[], object] | None = None
        """What a wrapper calls after a success; None while the budget is full, and a success would bring nothing."""
        self.denied = 0
        """How many retries were denied, ever."""

    def take(self, failure: Failure | None = None) -> bool:
        """Ask for a retry; when it is granted it is paid for.

        Args:
            failure: what is to be retried; its class or group may have a cost of its own.
        """
        with self._lock:
            self._fold()
            granted = self._tokens.take(self.cost_of(failure), (self._clock or current_clock()).monotonic())
            self.denied += not granted
            self._note()
        return granted

    def failed(self, failure: Failure | None = None) -> None:
        """Take note of a failure that is not to be retried."""
        with self._lock:
            self._fold()
            self._tokens.failed(self.cost_of(failure))
            self._note()

    def retried(self, failure: Failure | None = None) -> None:
        """Take note that a call succeeded at its retry after `failure`."""
        with self._lock:
            self._fold()
            if self._refunds:
                self._tokens.give(self.cost_of(failure))
            else:
                self._tokens.succeeded(1)
            self._note()

    def cost_of(self, failure: Failure | None) -> int:
        """Return what the retry of a failure costs, in thousandths of a token."""
        if failure is None or not self._costs:
            return self._cost
        return self._costs.get(failure.error_class, self._costs.get(failure.group, self._cost))

    @property
    def tokens(self) -> float:
        """The tokens it holds."""
        with self._lock:
            self._fold()
            self._note()
            return self._tokens.held / 1000

    def _fold(self) -> None:
        """Take in the successes that were only counted. The lock is held."""
        total = self._tally()  # which counts itself as well
        if total > self._tallied:
            self._tokens.succeeded(total - self._tallied)
        self._tallied = total + 1

    def _note(self) -> None:
        self.note = self._tally if self._tokens.held < self._tokens.capacity else None


def _number(value: float, name: str, *, above: bool = False) -> float:
    """Return a number that is allowed: at least 0, or above it."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_number or not 0 <= value <= _LIMIT or (above and thousandths(value) == 0):
        allowed = "numbers of at least 0.001" if above else "numbers >= 0"
        raise ConfigurationError(f"{name} is {value!r}; allowed are {allowed}, at most 1e9")
    return float(value)
