"""Tools for tests: a clock that stands still until it is moved, and a driver that stops a flow before any step."""

from .clock import ManualClock, manual_clock
from .harness import Paused, StepLog, crash_before, run_until

__all__ = ["ManualClock", "Paused", "StepLog", "crash_before", "manual_clock", "run_until"]
