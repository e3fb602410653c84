"""The classifier: an exception or an SMTP reply in, a `Failure` out.

It always answers. What it does not know is `unknown`, with the outcome that is safe to assume; it never guesses that a
recipient is dead. For each exception in a chain it asks, in this order: what the exception says of itself (`TaggedError`,
`tag`), the application's rules, the rules that retrykit brings. The stage speaks for what is not recognised and for
bugs: a `KeyError` in `render` is a rendering failure, a lost connection there stays one.

A chain is followed from the outermost exception along `__cause__`, or `__context__` where that is not suppressed; the
first that is recognised gives the answer. Of an exception group the first recognised member does, in their order, but
the outcome is unknown if that of any member is.

Outcomes: not sent in every stage before `send`; rejected for a reply; else what the rule says; not sent where the
exception's `smtp_phase` lies before "data"; else unknown. No stage is treated as `send`, and so is a stage of the
application's own within `send`. A certain outcome that was only found along an implicit `__context__` becomes unknown:
a handler may have sent again before it raised (`raise ... from error` says that it did not). So does that of the last of
several attempts, when an earlier one may have had its effect.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, cast

import attrs

from ..clock import current_clock
from ..errors import CallRefusedError, ConfigurationError, RetryLater
from ..events import Listener
from ..failure import ErrorClass, ErrorGroup, Failure, Outcome
from .answers import Answer, answer_of, event_answer
from .chains import MAX_DEPTH, Place, Walk, chain, is_any_unsure
from .enhanced_codes import FOR_NOW
from .exceptions import phase_of, provider_of, refusals_of, text_of, wrapped_by
from .explanation import Explanation
from .frames import own_frame
from .http import HttpReply, wait_of
from .kinds import Kind, Kinds
from .mailbox_providers import MAILBOX_CODES, mailbox_codes
from .provider_event import EventKind, ProviderEvent
from .rules import CodeTable, Evidence, Rule, RuleList, Scope, Signal, Tried, first_of
from .smtp import SmtpReply, asked_delay
from .tags import MARKS, tag_of
from .unknown_codes import UnknownCodes

__all__ = ["ErrorClassifier"]

MAX_MESSAGE: Final = 2_000
"""Characters of a message that a failure keeps."""

_Group: TypeAlias = BaseExceptionGroup[BaseException]
_MARKS: Final = MARKS | {"provider", "smtp_phase"}
"""What may be written on an exception to say more than its type."""
_BEFORE_DATA: Final = frozenset({"connect", "ehlo", "auth", "mail", "rcpt"})
_REFUSALS: Final = frozenset(
    {
        ErrorGroup.THROTTLING,
        ErrorGroup.TEMPORARY_MAILBOX,
        ErrorGroup.PERMANENT_RECIPIENT,
        ErrorGroup.CONTENT_POLICY,
        ErrorGroup.SENDER,
    }
)
"""Groups whose failures are somebody's answer, not a try of which nothing more is known."""

_TEMPORARY: Final = frozenset(
    {ErrorGroup.TRANSIENT_INFRASTRUCTURE, ErrorGroup.THROTTLING, ErrorGroup.TEMPORARY_MAILBOX}
)

STAGE_RULES: Final = (
    Rule("stage.parse", ErrorClass.INVALID_PAYLOAD, stages="parse"),
    Rule("stage.validate", ErrorClass.INVALID_PAYLOAD, stages="validate"),
    Rule("stage.render", ErrorClass.RENDERING_FAILURE, stages="render"),
)
"""What an error means that is not recognised, by the stage it happened in."""

_BY_STAGE: Final = {rule.stages[0]: rule for rule in STAGE_RULES}
_UNKNOWN: Final = Rule("unknown", ErrorClass.UNKNOWN, predicate=lambda _: True)


class _ApiTables(NamedTuple):
    """The rules for the answers and events of APIs."""

    certain: CodeTable
    words: RuleList
    vague: CodeTable
    last: RuleList


@functools.cache
def _smtp_tables() -> tuple[RuleList, CodeTable]:
    from .smtp_rules import SMTP_RULES  # only here: a large table, built when the first classifier is, for all of them

    return RuleList(SMTP_RULES), CodeTable(MAILBOX_CODES, "smtp")


@functools.cache
def _api_tables() -> _ApiTables:
    from .http_rules import API_WORDS, LAST_RULES  # only here: large tables, built when the first answer comes
    from .provider_codes import CERTAIN_CODES, VAGUE_CODES

    return _ApiTables(
        CodeTable(CERTAIN_CODES, "api"), RuleList(API_WORDS), CodeTable(VAGUE_CODES, "api"), RuleList(LAST_RULES)
    )


class ErrorClassifier:
    """Turns exceptions and SMTP replies into failures.

    Safe to share between threads and tasks. Building one is cheap; keep it all the same, since it remembers what it
    worked out about types and codes.

    Args:
        rules: the application's own rules; they stand before all others but tags.
        provider: the provider's name where `classify` is given none.
        on_event: who is told, once for each, of codes and types of exceptions that no rule knows (`UnknownCode`).

    Raises:
        ConfigurationError: something that is not a `Rule` is among the rules, or a listener is not allowed.

    Example:
        >>> classifier = ErrorClassifier(provider="primary")
        >>> failure = classifier.classify(SmtpReply(550, "5.1.1 user unknown"))
        >>> str(failure.error_class), failure.outcome.value, failure.rule, failure.provider
        ('invalid_recipient', 'rejected', 'smtp.enhanced.5.1.1', 'primary')
        >>> failure = classifier.classify(TimeoutError("timed out"), stage="send")
        >>> str(failure.error_class), failure.outcome.value
        ('network_timeout', 'unknown')
    """

    def __init__(
        self, rules: Iterable[Rule] = (), *, provider: str | None = None, on_event: Iterable[Listener] = ()
    ) -> None:
        if isinstance(rules, Rule):
            raise ConfigurationError("rules is one Rule; allowed is a list of rules: [Rule(...)]")
        own = tuple(rules)
        for rule in own:
            if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a checker
                raise ConfigurationError(f"the classifier was given {rule!r} as a rule; allowed are Rule(...) objects")
        self.provider: Final = provider
        self._own = RuleList(own)
        self._smtp, self._mailboxes = _smtp_tables()
        self._unknown = UnknownCodes(on_event)
        self._kinds = Kinds()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules in the order of their rank: the application's, stages, SMTP replies, exceptions."""
        from .exception_rules import EXCEPTION_RULES

        return (*self._own.rules, *STAGE_RULES, *self._smtp.rules, *EXCEPTION_RULES)

    def classify(self, signal: Signal, *, provider: str | None = None, stage: str | None = None) -> Failure:
        """Say what kind of failure this is.

        Args:
            signal: an exception, an SMTP reply, an HTTP answer, or a provider's event.
            provider: who answered, where the exception's own `provider` does not say; None: the classifier's own.
            stage: the boundary where it failed, outside of those that the exception was marked with; None: not known,
                which is treated as "send".

        Returns:
            The failure; its `rule` names the rule that chose the class.

        Raises:
            ConfigurationError: the signal is none of these, or the stage is no name; or it is a cancellation (`CancelledError`,
                `KeyboardInterrupt`, `SystemExit`, `GeneratorExit`, or a group of nothing else), which is no failure: let it
                pass.
        """
        if stage is not None and (not isinstance(stage, str) or not stage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"the stage is {stage!r}; allowed is text, such as 'send', and None")
        kind = self._kinds.known.get(type(signal))  # type: ignore[arg-type]
        if kind is not None and kind.is_settled:
            failure = self._by_type(cast("BaseException", signal), kind, provider, stage)
            if failure is not None:
                return failure
        return self._classify(signal, provider, stage)

    def explain(self, signal: Signal, *, provider: str | None = None, stage: str | None = None) -> Explanation:
        """Classify, and tell which rules were asked on the way.

        Args and errors are those of `classify`. It takes longer: `classify` does not ask all rules one by one.
        """
        tried: list[Tried] = []
        failure = self._classify(signal, provider, stage, tried)
        return Explanation(failure, tuple(tried))

    def classify_recipients(
        self, refused: BaseException | Mapping[str, object], *, provider: str | None = None
    ) -> dict[str, Failure]:
        """Say for each refused recipient of one message what kind of failure it is.

        Args:
            refused: an `SMTPRecipientsRefused` of smtplib or aiosmtplib; or what `sendmail` returns when a server has taken
                the message for some recipients only: a mapping from the others to code and text.
            provider: who answered; None: the classifier's own.

        Returns:
            The failures by recipient; empty where nobody was refused, or the exception is another one.

        Raises:
            ConfigurationError: it is neither an exception nor a mapping.
        """
        if not isinstance(refused, (BaseException, Mapping)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"refused is a {type(refused).__name__}; allowed are SMTPRecipientsRefused and a mapping of recipients to answers"
            )
        provider = self.provider if provider is None else provider
        replies = refusals_of(refused).items()
        return {recipient: self.classify(reply, provider=provider) for recipient, reply in replies}

    def _classify(
        self, signal: Signal, provider: str | None, stage: str | None, tried: list[Tried] | None = None
    ) -> Failure:
        provider = provider_of(signal) or (self.provider if provider is None else provider)
        place = Place(provider, () if stage is None else (stage,), tried)
        if isinstance(signal, SmtpReply):
            return self._of_reply(signal, signal, None, place)
        if isinstance(signal, HttpReply):
            return self._of_http(signal, signal, None, place)
        if isinstance(signal, ProviderEvent):
            return self._of_event(signal, place)
        if not isinstance(signal, BaseException):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a checker
            raise ConfigurationError(
                f"cannot classify {signal!r}; allowed are exceptions, SmtpReply, HttpReply and ProviderEvent objects"
            )
        if self._is_cancellation(signal):
            raise ConfigurationError(
                f"{type(signal).__qualname__} is a cancellation, not a failure; catch Exception, and let it pass"
            )
        failure = self._of_chain(signal, place, Walk())
        if failure is None:
            failure = self._unrecognised(signal, place)
            if failure.error_class == ErrorClass.UNKNOWN:
                self._unknown.met(failure, failure.error_code)
        if failure.outcome is not Outcome.UNKNOWN and place.within(signal).may_have_sent and is_any_unsure(signal):
            failure = attrs.evolve(failure, outcome=Outcome.UNKNOWN)
        if (
            failure.frame is None and signal.__traceback__ is not None
        ):  # what was recognised was never raised, or only within libraries
            frame = own_frame(signal)
            return failure if frame is None else attrs.evolve(failure, frame=frame)
        return failure

    def _by_type(self, error: BaseException, kind: Kind, provider: str | None, stage: str | None) -> Failure | None:
        """Answer for an exception of which little more than its type is to be asked; None where there is more to it.

        It is what `_classify` would answer: the short way for most exceptions.
        """
        if error.__dict__ and not _MARKS.isdisjoint(error.__dict__):
            return None
        rule = _UNKNOWN
        for each in kind.rules:
            if each.attribute is None or each.has_attribute(error):
                rule = each
                break
        if (error.__cause__ is not None or error.__context__ is not None) and (
            rule is _UNKNOWN or is_any_unsure(error)
        ):
            return None
        text = text_of(error)
        if provider is None:
            provider = self.provider
        if self._own.rules:
            scope = Scope(provider=provider, stage=stage)
            if self._own.may_match(scope) and self._own.first(Evidence(error, scope, text, kind.names)) is not None:
                return None
        if rule is _UNKNOWN or rule.error_class == ErrorClass.INTERNAL_ERROR:
            rule = _BY_STAGE.get(stage or "", rule)
        if stage is not None and stage != "send":
            outcome = Outcome.NOT_SENT
        else:
            outcome = rule.outcome or _outcome_of(rule.error_class)
        failure = Failure(
            error_class=rule.error_class,
            outcome=outcome,
            error_code=kind.code,
            error_message=_bounded(text),
            provider=provider,
            stage=stage,
            retry_after=rule.retry_after,
            rule=rule.name,
            frame=None if error.__traceback__ is None else own_frame(error),
        )
        if rule is _UNKNOWN:
            self._unknown.met(failure, kind.code)
        return failure

    def _of_chain(self, outermost: BaseException, outer: Place, walk: Walk) -> Failure | None:
        """Return the answer of the first exception of a chain that is recognised, or None."""
        place = outer.within(outermost)
        on_path = len(walk.path)
        try:
            for error, is_implicit in chain(outermost):
                if id(error) in walk.path or len(walk.path) >= MAX_DEPTH or walk.left <= 0:
                    break
                walk.path[id(error)] = None
                walk.left -= 1
                failure = self._of_one(error, place, walk)
                if failure is not None:
                    is_uncertain = is_implicit and place.may_have_sent
                    return attrs.evolve(failure, outcome=Outcome.UNKNOWN) if is_uncertain else failure
            return None
        finally:
            while len(walk.path) > on_path:
                walk.path.popitem()

    def _of_one(self, error: BaseException, place: Place, walk: Walk) -> Failure | None:
        """Return the answer of one exception without those behind it, or None where nothing recognises it."""
        kind = self._kinds.of(type(error))
        if kind.is_cancellation:
            return None
        if isinstance(error, RetryLater):
            return attrs.evolve(error.failure, retry_after=error.decision.delay)
        failure = self._of_replies(error, kind, place) or self._of_type(error, kind, place, walk)
        if isinstance(error, CallRefusedError) and failure is not None and failure.retry_after is None:
            failure = attrs.evolve(failure, retry_after=error.retry_after)
        said = tag_of(error)
        if said is None:
            return failure
        base = failure or self._failure(_UNKNOWN, _evidence(error, kind, place), place, kind.code)
        outcome = said.outcome or base.outcome
        if failure is None and said.outcome is None and outcome is Outcome.UNKNOWN:
            outcome = _outcome_of(said.error_class)
        return attrs.evolve(
            base,
            error_class=said.error_class,
            rule=f"tag.{said.error_class}",
            outcome=outcome,
            error_code=said.error_code or base.error_code,
            retry_after=base.retry_after if said.retry_after is None else said.retry_after,
        )

    def _of_type(self, error: BaseException, kind: Kind, place: Place, walk: Walk) -> Failure | None:
        evidence = _evidence(error, kind, place)
        own = self._own.first(evidence)
        if own is None and isinstance(error, BaseExceptionGroup):
            return self._of_group(cast("_Group", error), place, walk)
        if own is None and kind.wraps is not None:
            inner = wrapped_by(error, kind.wraps)
            failure = None if inner is None else self._of_chain(inner, place, walk)
            if failure is not None:
                return failure
        built_in = first_of(kind.rules, evidence)
        if own is not None:
            return self._failure(own, evidence, place, kind.code, built_in.outcome if built_in else None)
        if built_in is None:
            return None
        if built_in.error_class == ErrorClass.INTERNAL_ERROR:
            built_in = _BY_STAGE.get(place.stage or "", built_in)
        return self._failure(built_in, evidence, place, kind.code)

    def _of_group(self, group: _Group, place: Place, walk: Walk) -> Failure | None:
        """Return the answer of the first recognised member; what any of them may have done counts for all."""
        first: Failure | None = None
        is_certain = True
        for member in group.exceptions:
            if self._is_cancellation(member):
                continue
            failure = self._of_chain(member, place, walk)
            first = first or failure
            is_certain &= (failure or self._unrecognised(member, place)).outcome is not Outcome.UNKNOWN
        return first if first is None or is_certain else attrs.evolve(first, outcome=Outcome.UNKNOWN)

    def _of_replies(self, error: BaseException, kind: Kind, place: Place) -> Failure | None:
        """Return the answer of the reply that an exception carries; of several, the first that may heal, or the first."""
        failures = [
            self._of_reply(reply, error, kind, place)
            if isinstance(reply, SmtpReply)
            else self._of_http(reply, error, kind, place)
            for reply in (kind.read(error) if kind.read else ())
        ]
        return next((failure for failure in failures if failure.group in _TEMPORARY), failures[0] if failures else None)

    def _of_http(self, reply: HttpReply, signal: Signal, kind: Kind | None, place: Place) -> Failure:
        """Return the answer to an HTTP answer, whether it came by itself or in an exception."""
        answer = answer_of(reply, place.provider)
        scope = Scope(code=reply.status, provider=place.provider, stage=place.stage, protocol="http")
        failure = self._of_answer(answer, scope, signal, kind, place)
        if reply.status is None and place.may_have_sent and not answer.codes:  # not even that much could be read
            failure = attrs.evolve(failure, outcome=Outcome.UNKNOWN)
        if failure.retry_after is not None:
            return failure
        is_throttled = failure.group is ErrorGroup.THROTTLING
        return attrs.evolve(failure, retry_after=wait_of(reply, current_clock().now(), throttled=is_throttled))

    def _of_event(self, event: ProviderEvent, place: Place) -> Failure:
        answer = event_answer(event)
        code = None if event.reply is None else event.reply.code
        scope = Scope(code=code, provider=place.provider or event.provider, stage=place.stage, protocol="event")
        failure = _for_kind(self._of_answer(answer, scope, event, None, place), event.kind)
        if event.kind is not EventKind.DEFERRED or not place.may_have_sent:
            return failure
        return attrs.evolve(failure, outcome=Outcome.UNKNOWN)  # the provider goes on trying

    def _of_answer(self, answer: Answer, scope: Scope, signal: Signal, kind: Kind | None, place: Place) -> Failure:
        """Ask in order: the application, certain codes, what a mail server said, words, vague codes, the last resort."""
        quoted = answer.reply
        if quoted is not None:
            scope = scope._replace(enhanced_code=quoted.enhanced_code)
        tables = _api_tables()
        evidence = Evidence(signal, scope, answer.text, kind.names if kind else (), answer.tokens, place.tried)
        known = self._own.first(evidence) or tables.certain.first(evidence)
        rule = (
            known
            or (None if quoted is None else self._rule_of_quoted(quoted, evidence))
            or _believed(tables.words.first(evidence), scope)
            or (known := tables.vague.first(evidence))
            or tables.last.first(evidence)
        )
        failure = self._failure(
            rule or _UNKNOWN,
            evidence,
            place,
            answer.codes[0] if answer.codes else str(scope.code) if scope.code else kind.code if kind else None,
            Outcome.REJECTED,
            answer.retry_after,
        )
        if known is None and tables.vague.first(evidence) is None:
            self._unknown.met(failure, answer.codes[0] if answer.codes else None)
        return failure

    def _rule_of_quoted(self, reply: SmtpReply, evidence: Evidence) -> Rule | None:
        """Return the rule for a mail server's reply within an answer, unless it says nothing."""
        scope = Scope(reply.code, reply.enhanced_code, reply.phase, evidence.scope.provider, protocol="smtp")
        rule = self._rule_of_reply(
            Evidence(evidence.signal, scope, reply.text, (), mailbox_codes(reply.text), evidence.tried)
        )
        return None if rule is None or rule.error_class == ErrorClass.UNKNOWN else rule

    def _rule_of_reply(self, evidence: Evidence) -> Rule | None:
        rule = self._mailboxes.first(evidence) if evidence.tokens else None
        if rule is None or (
            evidence.scope.code_class == 4 and rule.error_class.group is ErrorGroup.PERMANENT_RECIPIENT
        ):
            return self._smtp.first(evidence)
        return rule

    def _of_reply(self, reply: SmtpReply, signal: Signal, kind: Kind | None, place: Place) -> Failure:
        scope = Scope(reply.code, reply.enhanced_code, reply.phase, place.provider, place.stage, "smtp")
        names = kind.names if kind else ()
        evidence = Evidence(signal, scope, reply.text, names, mailbox_codes(reply.text), place.tried)
        rule = self._own.first(evidence)
        if rule is None and scope.code_class not in (2, 3):  # those refuse nothing
            rule = self._rule_of_reply(evidence)
        is_refusal = scope.code_class in (4, 5) or (scope.code_class is None and rule is not None)
        failure = self._failure(
            rule or _UNKNOWN,
            evidence,
            place,
            str(reply.code) if reply.code is not None else kind.code if kind else None,
            Outcome.REJECTED if is_refusal else None,
            asked_delay(evidence.words) if scope.code_class == 4 else None,
        )
        if failure.error_class == ErrorClass.UNKNOWN:
            self._unknown.met(failure, failure.enhanced_code or failure.error_code)
        return failure

    def _unrecognised(self, error: BaseException, outer: Place) -> Failure:
        kind = self._kinds.of(type(error))
        place = outer.within(error)
        return self._failure(
            _BY_STAGE.get(place.stage or "", _UNKNOWN), _evidence(error, kind, place), place, kind.code
        )

    def _failure(
        self,
        rule: Rule,
        evidence: Evidence,
        place: Place,
        error_code: str | None,
        outcome: Outcome | None = None,
        retry_after: float | None = None,
    ) -> Failure:
        """Make the failure; `outcome` is what holds where neither the place nor the rule says otherwise."""
        if not place.may_have_sent:
            outcome = Outcome.NOT_SENT
        elif rule.outcome is not None:
            outcome = rule.outcome
        elif outcome is None:
            outcome = Outcome.NOT_SENT if evidence.scope.phase in _BEFORE_DATA else _outcome_of(rule.error_class)
        return Failure(
            error_class=rule.error_class,
            outcome=outcome,
            error_code=error_code,
            enhanced_code=evidence.scope.enhanced_code,
            error_message=_bounded(evidence.text),
            provider=place.provider,
            stage=place.stage,
            retry_after=retry_after if rule.retry_after is None else rule.retry_after,
            rule=rule.name,
            frame=own_frame(evidence.signal) if isinstance(evidence.signal, BaseException) else None,
        )

    def _is_cancellation(self, signal: BaseException) -> bool:
        """Tell whether an exception, or each member of a group, only ends work from outside."""
        waiting = [signal]
        while waiting:
            error = waiting.pop()
            if isinstance(error, BaseExceptionGroup):
                waiting.extend(cast("_Group", error).exceptions)
            elif not self._kinds.of(type(error)).is_cancellation:
                return False
        return True


def _believed(rule: Rule | None, scope: Scope) -> Rule | None:
    """Return a rule of words unless they would end a recipient against a status that speaks of us or of the provider."""
    if rule is None or rule.error_class.group is not ErrorGroup.PERMANENT_RECIPIENT or scope.protocol != "http":
        return rule
    return None if scope.code == 429 or scope.code_class == 5 else rule


def _for_kind(failure: Failure, kind: EventKind) -> Failure:
    """Return what an event's failure can mean: one that tells of no end ends nothing, and of no delay asks for no other try."""
    if kind is EventKind.DEFERRED:
        for_now = FOR_NOW.get(failure.error_class)
        return failure if for_now is None else attrs.evolve(failure, error_class=for_now)
    if kind is EventKind.OTHER and failure.group in (*_TEMPORARY, ErrorGroup.PERMANENT_RECIPIENT):
        return attrs.evolve(failure, error_class=ErrorClass.UNKNOWN, rule="event.no_failure", outcome=Outcome.UNKNOWN)
    return failure


def _outcome_of(error_class: ErrorClass) -> Outcome:
    """Return what a class alone says of the side effect: where somebody has said no, nothing was sent."""
    return Outcome.REJECTED if error_class.group in _REFUSALS else Outcome.UNKNOWN


def _evidence(error: BaseException, kind: Kind, place: Place) -> Evidence:
    scope = Scope(phase=phase_of(error), provider=place.provider, stage=place.stage)
    return Evidence(error, scope, text_of(error), kind.names, (), place.tried)


def _bounded(text: str) -> str:
    more = len(text) - MAX_MESSAGE
    return text if more <= 0 else f"{text[:MAX_MESSAGE]}... [{more:,} more characters]"
