"""Run a state machine that compares the store under test with the memory store."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import hypothesis
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

__all__ = ["compare", "examples"]

_STEPS = 30


def examples(*, at_most: int | None = None) -> hypothesis.settings:
    """Return settings for properties of stores: as many examples as the profile in force has, and no deadline."""
    usual = hypothesis.settings()
    return hypothesis.settings(
        max_examples=usual.max_examples if at_most is None else min(usual.max_examples, at_most),
        deadline=None,
        stateful_step_count=_STEPS,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )


def compare(machine: Callable[[], RuleBasedStateMachine], *, is_async: bool, at_most: int | None = None) -> None:
    """Run a state machine, less often where each of its calls goes through a loop."""
    settings = examples(at_most=10 if is_async else at_most)
    run_state_machine_as_test(cast("type[RuleBasedStateMachine]", machine), settings=settings)
