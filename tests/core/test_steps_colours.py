"""Steps of the wrong colour: a synchronous caller cannot await, and is told so."""

from __future__ import annotations

from functools import partial

import pytest

from retrykit._steps import do, is_async, run
from retrykit.errors import ConfigurationError


async def _coroutine_function():
    """Never awaited."""


class _Asynchronous:
    async def __call__(self):
        return 1

    def __repr__(self):
        return "<asynchronous>"


class _Promise:
    def __await__(self):
        yield


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (_coroutine_function, "_coroutine_function gave coroutine, which"),
        (_Asynchronous(), "<asynchronous> gave coroutine, which"),
        (_Promise, "_Promise gave _Promise, which"),
    ],
)
def test_run_of_a_step_that_has_to_be_awaited_is_refused(fn, text):
    """The flow is given up with its `finally`, and no coroutine is left over to warn about."""
    log = []

    def flow():
        try:
            yield from do(fn)
            yield from do(log.append, "never")
        except Exception:  # noqa: BLE001 - the mistake is the caller's, not a failure of the step
            log.append("except")
        finally:
            log.append("finally")

    with pytest.raises(ConfigurationError) as caught:
        run(flow())
    assert str(caught.value) == (
        f"{text} has to be awaited; use the asynchronous twin for it (AsyncDispatcher, AsyncRetryScheduler, "
        "open_async_backend, ...)"
    )
    assert log == ["finally"]


@pytest.mark.parametrize(
    ("expected", "fn"),
    [
        (True, _coroutine_function),
        (True, partial(_coroutine_function)),
        (True, _Asynchronous()),
        (True, _Asynchronous().__call__),
        (False, _Asynchronous),
        (False, _Promise),
        (False, print),
        (False, lambda: _coroutine_function),
        (False, None),
    ],
)
def test_is_async_tells_whether_a_call_gives_a_coroutine(expected, fn):
    """Of functions, partials and callable objects alike."""
    assert expected is is_async(fn)
