"""Failover: several providers for one job, and the next one when the first cannot do it.

Each provider has a circuit breaker and a throttle. A call goes to the first that is open to it; to the next only when it is
certain that the one before did not do it, and that this was not the message's own fault. After an outcome that nobody knows
there is no next one: the message might be sent twice. A provider that works again gets the calls back by its breaker's probes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import attrs

from ._steps import Steps, arun, do, is_async, run
from .breaker import CircuitBreaker
from .breaker.circuit_breaker import COUNTED
from .classification import ErrorClassifier
from .classification.tags import is_unsure
from .delivery import Sent
from .errors import CallRefusedError, ConfigurationError, NoProviderAvailableError
from .failure import Failure, Outcome
from .message import check_name
from .policy.backoff import Rng
from .retrying.functions import check_parts
from .throttle import AdaptiveThrottle

if TYPE_CHECKING:
    from .clock import Clock
    from .machines.breaker import Pass

__all__ = ["AsyncFailover", "Failover", "Provider"]

Strategy = Literal["priority", "weighted"]

_STRATEGIES: Final = ("priority", "weighted")


def _is_weight(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"the {attribute.name} of a provider is {value!r}; allowed are finite numbers > 0")


@attrs.frozen
class Provider:
    """One of several that can do the job.

    Args:
        send: does it.
        weight: its share of the calls under the strategy "weighted", > 0.
        breaker: its own; None: one with the default settings.
        throttle: its own; None: one with the default settings.

    Raises:
        ConfigurationError: the weight is not allowed.
    """

    send: Callable[..., Any]
    weight: float = attrs.field(default=1.0, kw_only=True, validator=_is_weight)
    breaker: CircuitBreaker | None = attrs.field(default=None, kw_only=True)
    throttle: AdaptiveThrottle | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class _Member:
    name: str
    send: Callable[..., Any]
    weight: float
    breaker: CircuitBreaker
    throttle: AdaptiveThrottle


class _FailoverFlow:
    """The one logic of both colours."""

    def __init__(
        self,
        providers: Mapping[str, Callable[..., Any] | Provider],
        strategy: Strategy,
        classifier: ErrorClassifier | None,
        clock: Clock | None,
        rng: Rng | None,
    ) -> None:
        if strategy not in _STRATEGIES:
            raise ConfigurationError(f"strategy is {strategy!r}; allowed are 'priority' and 'weighted'")
        if not isinstance(providers, Mapping) or not providers:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"the providers are {providers!r}; allowed is a mapping of name to function")
        check_parts(classifier=classifier, clock=clock, rng=rng)
        self._members = [_member(name, given, clock) for name, given in providers.items()]
        self._strategy = strategy
        self._classifier = classifier or ErrorClassifier()
        self._rng = rng
        self._paused: Mapping[str, float | None] = {}

    def pause_providers(self, paused: Mapping[str, float | None]) -> None:
        """Give no call to some providers until this is called again; the dispatcher does so with the pauses of its backend.

        Args:
            paused: the seconds until each goes on, by its name; None where nobody knows.
        """
        self._paused = dict(paused)

    @property
    def breakers(self) -> Mapping[str, CircuitBreaker]:
        """The breakers, by the provider's name."""
        return {member.name: member.breaker for member in self._members}

    def _call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Steps[Any]:
        refusals: dict[str, tuple[str, float | None]] = {}
        failed: Exception | None = None
        asked: list[str] = []
        for member in self._order():
            entered, reason, retry_after = self._enter(member)
            if entered is None:
                refusals[member.name] = reason, retry_after
                continue
            try:
                result = yield from do(member.send, *args, **kwargs)
            except CallRefusedError as refused:
                member.breaker.failed(entered, refused)
                if is_unsure(refused):  # an attempt before it may have had its effect
                    raise
                refusals[member.name] = str(refused), refused.retry_after
                continue
            except BaseException as error:
                if not self._goes_on(member, entered, error):
                    raise
                failed = cast("Exception", error)
                asked.append(f"{member.name!r}: {type(error).__name__}")
                continue
            if entered.note is not None:
                entered.note()
            member.throttle.note()
            return _from(member.name, result)
        if failed is not None:
            passed_over = [f"{name!r}: {reason}" for name, (reason, _) in refusals.items()]
            failed.add_note(f"retrykit: no provider did it; {', '.join([*asked, *passed_over])}")
            try:
                raise failed
            finally:
                del failed  # its traceback holds this frame: without this they would keep each other alive
        waits = [seconds for _, seconds in refusals.values() if seconds is not None]
        raise NoProviderAvailableError(
            {name: reason for name, (reason, _) in refusals.items()}, min(waits) if waits else None
        )

    def _order(self) -> Sequence[_Member]:
        """Return the providers in the order in which they are asked."""
        if self._strategy == "priority" or len(self._members) == 1:
            return self._members
        import random

        draw = (self._rng or cast("Rng", random)).random
        # Each draws a time that its weight makes shorter; so the first is drawn with the chances that the weights give.
        return sorted(self._members, key=lambda member: -math.log(1.0 - draw()) / member.weight)

    def _enter(self, member: _Member) -> tuple[Pass | None, str, float | None]:
        """Ask whether a provider takes a call; return its pass, or why not and for how long."""
        if member.name in self._paused:
            return None, "paused", self._paused[member.name]
        if wait := member.throttle.turn():
            return None, "throttled", wait
        entered = member.breaker.gate or member.breaker.admit()
        if entered is None:
            refusal = member.breaker.refusal()
            return None, refusal.state, refusal.retry_after
        return entered, "", None

    def _goes_on(self, member: _Member, entered: Pass, error: BaseException) -> bool:
        """Take in an error, and tell whether the next provider may be asked."""
        if not isinstance(error, Exception):
            member.breaker.failed(entered, error)
            return False
        if getattr(error, "provider", None) is None:
            with contextlib.suppress(AttributeError):  # an exception with slots
                error.provider = member.name  # type: ignore[attr-defined]  # the evidence says who it was
        failure = self._classifier.classify(error, provider=member.name, stage="send")
        member.breaker.failed(entered, error, failure)
        member.throttle.failed(failure)
        return _is_elsewhere(failure)


def _is_elsewhere(failure: Failure) -> bool:
    """Tell whether another provider may do what this one did not."""
    if failure.outcome is Outcome.NOT_SENT:
        return True
    return failure.outcome is Outcome.REJECTED and failure.group in COUNTED


def _from(name: str, result: Any) -> Any:
    """Return a send's answer with the name of the provider; what is none of a send comes back as it is."""
    if result is None or isinstance(result, str):
        return Sent(result, name)
    if isinstance(result, Sent) and result.provider is None:
        return attrs.evolve(result, provider=name)
    return result


def _member(name: str, given: Callable[..., Any] | Provider, clock: Clock | None) -> _Member:
    provider = given if isinstance(given, Provider) else Provider(given)
    if not callable(provider.send):
        raise ConfigurationError(f"the provider {name!r} is {provider.send!r}; allowed is a function or a Provider")
    check_name(name, "name of a provider")
    for part, kind in ((provider.breaker, CircuitBreaker), (provider.throttle, AdaptiveThrottle)):
        if part is not None and not isinstance(part, kind):
            raise ConfigurationError(f"the provider {name!r} was given {part!r}; allowed is a {kind.__name__}")
    return _Member(
        name,
        provider.send,
        provider.weight,
        provider.breaker or CircuitBreaker(name, clock=clock),
        provider.throttle or AdaptiveThrottle(name, clock=clock),
    )


class Failover(_FailoverFlow):
    """Sends through the first of several providers that takes the call.

    Args:
        providers: by name, functions or `Provider(...)`; each gets the arguments of the call.
        strategy: "priority" asks them in their order; "weighted" draws the order anew for each call, by their weights.
        classifier: how failures are recognised.
        clock: where the time comes from; None: the clock in force.
        rng: what the weighted order is drawn with; None: the `random` module.

    Raises:
        ConfigurationError: a value is not allowed, or a function is a coroutine function.

    Example:
        >>> def send_ses(message, key):
        ...     raise ConnectionRefusedError("no answer")
        >>> send = Failover({"ses": send_ses, "backup": lambda message, key: f"id of {key}"})
        >>> send("a message", "welcome-17")
        Sent(provider_id='id of welcome-17', provider='backup')
    """

    def __init__(
        self,
        providers: Mapping[str, Callable[..., Any] | Provider],
        *,
        strategy: Strategy = "priority",
        classifier: ErrorClassifier | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        super().__init__(providers, strategy, classifier, clock, rng)
        for member in self._members:
            if is_async(member.send):
                raise ConfigurationError(
                    f"the provider {member.name!r} is the coroutine function {member.send!r}; use AsyncFailover for it"
                )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Send through the first provider that takes the call.

        Returns:
            What it answered: for None, text and `Sent` a `Sent` with its name, everything else as it is.

        Raises:
            NoProviderAvailableError: none takes a call now.
            Exception: what the last provider that was asked raised.
        """
        return run(self._call(args, kwargs))


class AsyncFailover(_FailoverFlow):
    """`Failover` for asynchronous callers: the functions give awaitables."""

    def __init__(
        self,
        providers: Mapping[str, Callable[..., Awaitable[Any]] | Provider],
        *,
        strategy: Strategy = "priority",
        classifier: ErrorClassifier | None = None,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        super().__init__(providers, strategy, classifier, clock, rng)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Send through the first provider that takes the call, as `Failover`."""
        return await arun(self._call(args, kwargs))
