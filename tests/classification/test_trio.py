"""Marks and cancellation under trio."""

from __future__ import annotations

import pytest

from retrykit.classification import ErrorClassifier, stage, tag
from retrykit.classification.tags import stages_of, tag_of
from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorClass
from tests.capabilities import require

require("trio")

import trio


def test_decorated_coroutine_function_marks_under_trio():
    """The decorator knows no event loop."""

    @stage("charge")
    @tag(ErrorClass.PROVIDER_UNAVAILABLE)
    async def charge():
        await trio.lowlevel.checkpoint()
        raise OSError("x")

    with pytest.raises(OSError, match="x") as info:
        trio.run(charge)
    assert (tag_of(info.value).error_class, stages_of(info.value)) == (ErrorClass.PROVIDER_UNAVAILABLE, ("charge",))


def test_cancellation_of_trio_passes_unmarked_and_is_not_classified():
    """The real exception of a cancelled scope is no failure."""
    seen = []

    async def main():
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                with tag(ErrorClass.UNKNOWN), stage("send"):
                    await trio.sleep_forever()
            except trio.Cancelled as error:
                seen.append((tag_of(error), stages_of(error)))
                with pytest.raises(ConfigurationError, match="is a cancellation"):
                    ErrorClassifier().classify(error)
                raise

    trio.run(main)
    assert seen == [(None, ())]
