"""The monitor: it listens to what happens, and tells people when something is wrong.

Each process has one. It counts events, which costs next to nothing, and once per interval adds what it counted to the fleet's record
in the store, where the rules judge the sums of all in the same step. So an alert fires once however many processes there are, and one
of them tells people; when that one dies before it has, another one does. Somebody may be told twice, but is never not told.

- A store that is away loses nothing: what was counted waits, and its number sees to it that it counts once.
- A notifier that hangs or raises holds up neither the monitor nor the others for longer than its limit; it is called again, up to
  five times, later and later.
- A record that cannot be read is begun anew, with a line in the log: it holds a day at the most.
- A clock that is set back neither fires an alert nor keeps one from firing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from .._steps import Steps, arun, do, is_async, run
from ..checks import has_methods, printable
from ..clock import Clock, current_clock
from ..codec import encode
from ..errors import ConfigurationError, StoreCorruptError, StoreError
from ..events import Event
from ..machines.alert_rules import DEFAULT_RULES
from ..machines.alerts import Alert, AlertState, Finding, Terms
from ..machines.rule_checks import check_rules
from ..machines.signals import Backlog, Judge, Signals, exchange, told
from ..message import check_name
from ..stores import AsyncBackend, Backend, SignalChange
from ..times import Duration, plain, seconds
from .bounds import AsyncBounded, Bounded, name_of, why_not
from .counting import Counting
from .notifiers import LogNotifier

__all__ = ["AsyncMonitor", "Monitor"]

_LEASE: Final = 120.0
"""Seconds, at least, after which another process tells people, when the one that was to has not; more than a round of notifiers takes."""
_LONGEST_INTERVAL: Final = 120.0
"""A process that says nothing for five minutes is taken for one that is gone."""
_LONGEST_CALL: Final = 60.0
_TRIES: Final = 5
_FIRST_WAIT: Final = 5.0

_logger: Final = logging.getLogger("retrykit.monitor")

Notice: TypeAlias = tuple[str, AlertState, datetime]


class _Guarded:
    """A rule whose errors are logged: what is in force stays so, and the other rules are judged."""

    def __init__(self, rule: Judge) -> None:
        self._rule = rule
        self.terms: Terms = rule.terms

    def judge(self, signals: Signals, firing: Mapping[str, Alert]) -> Iterable[Finding]:
        """Return what the rule says."""
        try:
            found = list(self._rule.judge(signals, firing))
            for each in found:
                _check_finding(each)
            return found
        except Exception:
            _logger.exception("the rule %r failed; its alerts stay as they are", self.terms.name)
            return [Finding(key=key, is_met=True) for key in firing]


class _MonitorFlow:
    """The one logic of both colours."""

    def __init__(
        self,
        backend: Backend | AsyncBackend,
        notifiers: Sequence[Bounded | AsyncBounded],
        rules: Iterable[Judge],
        interval: Duration,
        name: str,
        clock: Clock | None,
    ) -> None:
        for store in ("signals", "retries", "dead_letters"):
            if not hasattr(backend, store):
                raise ConfigurationError(
                    f"the backend is {backend!r}, which has no {store}; allowed is one with all its stores, such as "
                    "open_backend(url)"
                )
        has_methods(clock, "clock", "now monotonic sleep sleep_async")
        if is_async(backend.signals.change) is not isinstance(self, AsyncMonitor):
            raise ConfigurationError(
                f"the backend is {backend!r}; a Monitor takes a synchronous one, an AsyncMonitor an asynchronous one: "
                "as_async(backend), or open_async_backend(url)"
            )
        self._backend = backend
        self._notifiers = notifiers
        self._rules = [_Guarded(rule) for rule in check_rules(rules)]
        self._interval = seconds(interval, "interval", positive=True, most=_LONGEST_INTERVAL)
        self._lease = max(_LEASE, 3 * self._interval, 2 * sum(each.limit for each in notifiers))
        self._name = check_name(name, "name")
        self._clock = clock
        self._counting = Counting()
        self._shift: int | None = None
        self._sendings: dict[Notice, dict[int, tuple[int, float]]] = {}
        self._stopped = False

    def __call__(self, event: Event) -> None:
        """Count an event: give the monitor to whatever takes `on_event=`."""
        self._counting(event)

    def stop(self) -> None:
        """Let `run` end after the interval it is at; safe from other threads and from signal handlers."""
        self._stopped = True

    def _time(self) -> Clock:
        return self._clock or current_clock()

    def _run_once(self) -> Steps[Sequence[Alert]]:
        given = self._counting.take((yield from self._look()))

        def change(known: Signals | None, now: datetime) -> Signals:
            return exchange(known, self._name, given, self._rules, lease=self._lease, now=now)

        signals = yield from self._change(change)
        self._counting.handed_over()
        self._note_shift(signals.shift)
        yield from self._tell(signals.notices(given.instance))
        return signals.alerts()

    def _change(self, change: SignalChange) -> Steps[Signals]:
        """Change the record; one that cannot be read is begun anew: it holds a day of counts, and without it nobody would be told."""
        try:
            return (yield from do(self._backend.signals.change, self._name, change))
        except StoreCorruptError as error:
            if (yield from do(self._backend.signals.mend, self._name)):
                _logger.error(  # noqa: TRY400 - one line: nothing here is at fault
                    "the record of what the fleet met was begun anew, alerts still in force will be told again: %s",
                    printable(str(error)),
                )
            return (yield from do(self._backend.signals.change, self._name, change))

    def _look(self) -> Steps[Backlog | None]:
        """Ask the backend how long its queues are."""
        try:
            retries = yield from do(self._backend.retries.stats)
            letters = yield from do(self._backend.dead_letters.stats)
        except StoreError as error:
            _logger.warning("the queues cannot be measured now, trying again: %s", error)
            return None
        late = 0.0 if retries.next_due_at is None else (self._time().now() - retries.next_due_at).total_seconds()
        return Backlog(
            waiting=retries.waiting,
            due=retries.due,
            overdue=max(0.0, late),
            letters=letters.quarantined,
            died_last_hour=letters.died_last_hour,
        )

    def _note_shift(self, shift: int) -> None:
        if self._shift is not None and shift > self._shift:
            _logger.warning(
                "the store's clock was set back by %s s; what was counted stays, and counting goes on",
                plain((shift - self._shift) / 1000),
            )
        self._shift = shift

    def _tell(self, notices: Sequence[Alert]) -> Steps[None]:
        """Tell people, as far as it is time to; what everybody was told of is noted in the store."""
        wanted = {_notice(alert): alert for alert in notices}
        self._sendings = {
            notice: self._sendings.get(notice, dict.fromkeys(range(len(self._notifiers)), (0, 0.0)))
            for notice in wanted
        }
        failed = set[int]()
        for notice, alert in wanted.items():
            sending = self._sendings[notice]
            for number, (tries, not_before) in list(sending.items()):
                if number not in failed and self._time().monotonic() >= not_before:
                    left = yield from self._tell_one(number, alert, tries)
                    if left is None:
                        del sending[number]
                    else:
                        sending[number] = left
                        failed.add(number)
        done = [alert for notice, alert in wanted.items() if not self._sendings[notice]]
        if done:
            yield from self._change(lambda known, _: told(known, self._name, done))

    def _tell_one(self, number: int, alert: Alert, tries: int) -> Steps[tuple[int, float] | None]:
        """Call a notifier; return how often it failed and when to call it again, None: it need not be called again."""
        notifier = self._notifiers[number]
        try:
            yield from do(notifier, alert)
        except Exception as error:  # noqa: BLE001 - it is logged, without its text
            who, what, why = notifier.name, printable(alert.key), why_not(error)
            if tries + 1 >= _TRIES:
                # one line: a traceback would end in the error's own text
                _logger.error("%s was not told of %s, given up after %d tries: %s", who, what, _TRIES, why)  # noqa: TRY400
                return None
            wait = _FIRST_WAIT * 2**tries
            _logger.warning("%s could not be told of %s, trying again in %s s: %s", who, what, plain(wait), why)
            return tries + 1, self._time().monotonic() + wait
        return None

    def _run(self, sleep: Callable[[float], Awaitable[None] | None]) -> Steps[None]:
        while not self._stopped:
            try:
                yield from self._run_once()
            except StoreError as error:
                _logger.warning("the signals cannot be exchanged now, trying again: %s", error)
            except Exception:
                _logger.exception("the monitor failed, trying again")
            if not self._stopped:
                yield from do(sleep, self._interval)


def _notice(alert: Alert) -> Notice:
    return alert.key, alert.state, alert.changed_at


def _check_finding(finding: Finding) -> None:
    """Refuse what the record could not keep: no exchange of the fleet may fail of one rule."""
    if not isinstance(finding, Finding):  # pyright: ignore[reportUnnecessaryIsInstance] - rules of applications
        raise TypeError(f"judge gave {type(finding).__name__}; allowed are findings")
    for text in (finding.key, finding.title, *finding.commands):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"a finding has a {type(text).__name__} for its key, its title or a command; allowed is text"
            )
    encode(dict(finding.evidence))


def _check_notifiers(notifiers: Iterable[Callable[[Alert], object]]) -> Sequence[Callable[[Alert], object]]:
    if isinstance(notifiers, (str, bytes)) or callable(notifiers) or not isinstance(notifiers, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"notifiers is {_seen(notifiers)}; allowed is a list of functions, for example [LogNotifier()]"
        )
    found = list(notifiers)
    for notifier in found:
        if not callable(notifier) or isinstance(notifier, type):
            raise ConfigurationError(
                f"a notifier is {_seen(notifier)}; allowed are functions of one alert, such as LogNotifier() and WebhookNotifier(url)"
            )
    return found


def _seen(value: object) -> str:
    """Return what was given, for an error; of what may be an address only what kind of thing it is."""
    return f"of type {type(value).__name__}" if isinstance(value, (str, bytes)) else repr(value)


class Monitor(_MonitorFlow):
    """Watches a fleet and tells people what is wrong.

    Args:
        backend: where the fleet's record is, whose queues are measured; all processes of a fleet use the same.
        notifiers: called with each alert when it fires and when it is over; functions of one `Alert`.
        rules: what is watched for; their names differ.
        interval: how often counts are exchanged and rules are judged, > 0 and up to two minutes.
        notifier_timeout: real time that a notifier may take, > 0 and up to a minute.
        name: of the record: monitors with different names do not see each other.
        clock: where the time between tries comes from; None: the clock in force. The rules go by the store's.

    Raises:
        ConfigurationError: a value is not allowed, two rules have one name, or something is asynchronous.

    Example:
        >>> from retrykit import Dispatcher, open_backend
        >>> backend = open_backend("memory://")
        >>> monitor = Monitor(backend, notifiers=[print])
        >>> dispatcher = Dispatcher(lambda message, key: None, backend=backend, on_event=[monitor])
        >>> _ = dispatcher.handle({"id": "welcome-17"})
        >>> monitor.run_once()
        []
    """

    def __init__(
        self,
        backend: Backend,
        *,
        notifiers: Iterable[Callable[[Alert], object]] = (LogNotifier(),),
        rules: Iterable[Judge] = DEFAULT_RULES,
        interval: Duration = 10.0,
        notifier_timeout: Duration = 10.0,
        name: str = "default",
        clock: Clock | None = None,
    ) -> None:
        limit = seconds(notifier_timeout, "notifier_timeout", positive=True, most=_LONGEST_CALL)
        checked = _check_notifiers(notifiers)
        for each in checked:
            if is_async(each):
                raise ConfigurationError(
                    f"a notifier is the coroutine function {name_of(each)}; use AsyncMonitor for it"
                )
        super().__init__(backend, [Bounded(each, limit) for each in checked], rules, interval, name, clock)

    def run_once(self) -> Sequence[Alert]:
        """Exchange counts, judge, and tell people; return the alerts in force.

        Raises:
            StoreError: the store failed; what was counted waits for the next time.
        """
        return run(self._run_once())

    def run(self) -> None:
        """Do so once per interval until `stop` is called, in a thread that the application starts. Errors are logged."""
        run(self._run(self._time().sleep))


class AsyncMonitor(_MonitorFlow):
    """`Monitor` for asynchronous callers; notifiers may be coroutine functions too."""

    def __init__(
        self,
        backend: AsyncBackend,
        *,
        notifiers: Iterable[Callable[[Alert], Awaitable[object] | object]] = (LogNotifier(),),
        rules: Iterable[Judge] = DEFAULT_RULES,
        interval: Duration = 10.0,
        notifier_timeout: Duration = 10.0,
        name: str = "default",
        clock: Clock | None = None,
    ) -> None:
        limit = seconds(notifier_timeout, "notifier_timeout", positive=True, most=_LONGEST_CALL)
        bounded = [AsyncBounded(each, limit) for each in _check_notifiers(notifiers)]
        super().__init__(backend, bounded, rules, interval, name, clock)

    async def run_once(self) -> Sequence[Alert]:
        """Exchange counts, judge, and tell people, as `Monitor.run_once`."""
        return await arun(self._run_once())

    async def run(self) -> None:
        """Do so once per interval until `stop` is called, in a task that the application starts."""
        await arun(self._run(self._time().sleep_async))
