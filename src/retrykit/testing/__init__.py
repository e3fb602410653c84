"""Tools for tests: clocks that stand still or do not wait, a driver that stops a flow before any step, and more by topic.

The names here are loaded on first use. `retrykit.testing.plugin` gives them to pytest as fixtures;
`retrykit.testing.strategies` and `retrykit.testing.conformance` need ``pip install 'retrykit[testing]'``.
"""

TYPE_CHECKING = False  # as in `retrykit` itself
if TYPE_CHECKING:
    from .clock import ImpatientClock, ManualClock, manual_clock, no_waiting
    from .harness import Paused, StepLog, crash_before, run_until

__all__ = [
    "ImpatientClock",
    "ManualClock",
    "Paused",
    "StepLog",
    "crash_before",
    "manual_clock",
    "no_waiting",
    "run_until",
]

_HOMES = {
    "clock": "ImpatientClock ManualClock manual_clock no_waiting",
    "harness": "Paused StepLog crash_before run_until",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
