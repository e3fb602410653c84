"""The retry budget as a machine: tokens that successes bring and retries cost.

While nothing succeeds nothing is handed out, so retries cannot keep an overloaded system down: a budget fed by successes lets
it recover as if there were no retries at all. A small floor, fed by time, keeps a service with little traffic from never
retrying.

Tokens are whole thousandths, as in gRFC A6 (https://github.com/grpc/proposal/blob/master/A6-client-retries.md), so sums are
exact.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Tokens", "thousandths"]

_ONE: Final = 1000


def thousandths(value: float) -> int:
    """Return tokens in thousandths, cut to three decimals."""
    return int(round(value * _ONE, 3))


class Tokens:
    """A purse of tokens. Whoever shares it holds a lock around each method.

    Args:
        capacity: how many it holds at the most, in thousandths; it begins full.
        per_success: what a success brings, in thousandths.
        cut_off: with so many or fewer left, in thousandths, nothing is handed out.
        floor: retries a second that are granted whatever it holds.
        charges_every_failure: whether a failure costs tokens also when it is not retried, as in gRPC; else a retry does, when
            it is granted.
    """

    __slots__ = (
        "_floor_at",
        "_floor_tokens",
        "capacity",
        "charges_every_failure",
        "cut_off",
        "floor",
        "held",
        "per_success",
    )

    def __init__(
        self,
        capacity: int,
        per_success: int,
        *,
        cut_off: int = 0,
        floor: float = 0.0,
        charges_every_failure: bool = False,
    ) -> None:
        self.capacity = capacity
        self.per_success = per_success
        self.cut_off = cut_off
        self.floor = floor
        self.charges_every_failure = charges_every_failure
        self.held = capacity
        self._floor_at: float | None = None
        self._floor_tokens = 0.0

    def succeeded(self, count: int) -> None:
        """Take in what successes bring."""
        self.give(count * self.per_success)

    def give(self, tokens: int) -> None:
        """Put tokens in, up to the capacity."""
        self.held = min(self.capacity, self.held + tokens)

    def take(self, cost: int, now: float) -> bool:
        """Ask for a retry.

        Args:
            cost: in thousandths.
            now: monotonic seconds, for the floor.

        Returns:
            Whether it is granted; then it is paid for.
        """
        if self.charges_every_failure:
            self.held = max(0, self.held - cost)
            granted = self.held > self.cut_off
        else:
            granted = self.held - cost >= self.cut_off
            if granted:
                self.held -= cost
        return granted or self._floor(now)

    def failed(self, cost: int) -> None:
        """Take note of a failure that is not retried."""
        if self.charges_every_failure:
            self.held = max(0, self.held - cost)

    def _floor(self, now: float) -> bool:
        """Ask for one of the retries that are always granted; at most those of a second are saved up, at least one."""
        if not self.floor:
            return False
        most = max(1.0, self.floor)
        passed = most / self.floor if self._floor_at is None else max(0.0, now - self._floor_at)
        self._floor_tokens = min(most, self._floor_tokens + passed * self.floor)
        self._floor_at = now
        if self._floor_tokens < 1.0 - 1e-9:  # sums of floats fall short by less than a clock can tell
            return False
        self._floor_tokens = max(0.0, self._floor_tokens - 1.0)
        return True
