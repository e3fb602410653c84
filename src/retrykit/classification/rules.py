"""Rules: what a failure looks like, and which error class that makes it.

Rules are data in an order; the first that matches gives the class. A rule names what it looks for, and matches where
everything that it names is there: the codes, one of its phrases, an exception's name. The tables that retrykit brings
are lists of such rules; an application's own stand before them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import attrs

from ..errors import ConfigurationError
from ..failure import ErrorClass, Outcome
from ..times import Duration, seconds
from .http import HttpReply
from .phrases import PhraseBook
from .provider_event import ProviderEvent
from .smtp import PHASES, SmtpReply, words

__all__ = ["CodeTable", "Evidence", "Rule", "RuleList", "Scope", "Signal", "Tried", "first_of"]

Signal: TypeAlias = BaseException | SmtpReply | HttpReply | ProviderEvent
"""What can be classified."""

_PART = r"(?:x|\d{1,3}|\d{1,3}-\d{1,3})"
_PATTERN: Final = re.compile(rf"[45x](?:\.{_PART}){{2}}", re.ASCII)
_RANGE: Final = re.compile(r"([a-z]*)(\d+)-(\d+)", re.ASCII)
_MAX_SCOPES: Final = 1_024
PROTOCOLS: Final = ("smtp", "http", "event")
"""What a failure can have come by, besides an exception."""


def _tuple(value: Iterable[str] | str) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _phrases(value: Iterable[str] | str) -> tuple[str, ...]:
    """Bring phrases into the form of `words`; a space at an end stays, since it stands for the edge of a word."""
    result: list[str] = []
    for phrase in _tuple(value):
        core = words(phrase.removesuffix("<>")).strip()
        if phrase.endswith("<>"):
            core = f"{core} <>".strip()
        if not core:
            raise ConfigurationError(
                f"a rule looks for the phrase {phrase!r}, which holds no word; it would match anything"
            )
        result.append(" " * phrase.startswith(" ") + core + " " * phrase.endswith(" "))
    return tuple(result)


def _tokens(value: Iterable[str | int] | str | int) -> tuple[str, ...]:
    return tuple(str(token).lower() for token in ((value,) if isinstance(value, (str, int)) else value))


def _phases(value: Iterable[str | None] | str) -> tuple[str | None, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _names(value: Iterable[str | type[BaseException]] | str | type[BaseException]) -> tuple[str, ...]:
    items = (value,) if isinstance(value, (str, type)) else value
    return tuple(item if isinstance(item, str) else qualified_name(item) for item in items)


def _codes(value: Iterable[int] | int) -> tuple[int, ...]:
    codes = (value,) if isinstance(value, (int, str)) else tuple(value)
    for code in codes:
        if isinstance(code, bool) or not isinstance(code, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"a code of a rule is {code!r}; allowed are whole numbers such as 550")
    return codes


def _error_class(value: ErrorClass | str) -> ErrorClass:
    return value if isinstance(value, ErrorClass) else ErrorClass(value)


def _optional_outcome(value: Outcome | str | None) -> Outcome | None:
    try:
        return None if value is None else Outcome(value)
    except ValueError:
        raise ConfigurationError(
            f"the outcome of a rule is {value!r}; allowed are {', '.join(Outcome)}, and None"
        ) from None


def _optional_seconds(value: Duration | None) -> float | None:
    return None if value is None else seconds(value, "retry_after")


def qualified_name(cls: type) -> str:
    """Return the name under which rules know an exception: its module and its name within it."""
    return f"{cls.__module__}.{cls.__qualname__}"


class Scope(NamedTuple):
    """Where a failure happened and which codes it carries; all that a rule asks besides words and types."""

    code: int | None = None
    enhanced_code: str | None = None
    phase: str | None = None
    provider: str | None = None
    stage: str | None = None
    protocol: str | None = None

    @property
    def code_class(self) -> int | None:
        """The first digit of the basic code; where that was lost, of the enhanced code."""
        if self.code is not None:
            return self.code // 100
        return None if self.enhanced_code is None else int(self.enhanced_code[0])


class Tried(NamedTuple):
    """A rule that was asked."""

    rule: Rule
    matched: bool
    """Whether it was the one: what it looks for is there. The class was chosen by the last one that matched."""


class Evidence:
    """One failure as rules look at it. Its words are made when the first rule asks for them."""

    __slots__ = ("_words", "names", "scope", "signal", "text", "tokens", "tried")

    def __init__(
        self,
        signal: Signal,
        scope: Scope,
        text: str,
        names: Collection[str] = (),
        tokens: Collection[str] = (),
        tried: list[Tried] | None = None,
    ) -> None:
        self.signal = signal
        self.scope = scope
        self.text = text
        self.names = names
        self.tokens = tokens
        self.tried = tried
        self._words: str | None = None

    @property
    def words(self) -> str:
        """The text in the form that phrases are compared with."""
        if self._words is None:
            self._words = words(self.text)
        return self._words


@attrs.frozen
class Rule:
    """One row of a table: what to look for, and what it means.

    A rule matches where everything that it names is there. Each of the plural fields holds alternatives: any one is
    enough. A rule that names nothing is refused.

    Args:
        name: what the rule is called in failures, logs and dead letters: lower-case words with dots.
        error_class: the class it gives.
        codes: basic SMTP codes (550), or HTTP statuses.
        code_class: 4 or 5: the first digit of the basic code or the status; where that was lost, of the enhanced code.
        tokens: a provider's own error codes, in its answers and events: "MessageRejected", "21211"; letter case does not matter.
        enhanced: enhanced codes; each part is a number, a range or "x": "5.1.1", "x.2.2", "5.7.500-699".
        words: phrases, compared with the lower-case text without addresses. A space at an end stands for the edge of
            a word: " full " is not found in "successfully". "<>" stands for an address that was there, wherever.
        also: phrases of which one must be there besides.
        unless: phrases none of which may be there.
        exceptions: exception classes or their qualified names ("smtplib.SMTPDataError"); subclasses count.
        attribute: the name of an attribute of the exception, and the values it may have.
        predicate: a function of the signal. It must not raise; if it does, that is logged and the rule does not match.
        protocol: only replies of "smtp", answers of "http", or a provider's events ("event"); None: all, and exceptions.
        provider: only failures of this provider; letter case does not matter.
        phases: only these SMTP phases; None in it: also where the phase is not known.
        stages: only these stages.
        outcome: what is known about the side effect; None: what follows from the stage and the kind of failure.
        retry_after: a duration to wait at least, >= 0 seconds; None: what the failure itself asks for.
        source: where the rule comes from: an RFC's section, a product's documentation.

    Raises:
        ConfigurationError: the rule names nothing to look for, or a value is not allowed.

    Example:
        >>> Rule("shop.suspended", ErrorClass.PROVIDER_MISCONFIGURED, codes=[550], words=["account suspended"]).codes
        (550,)
    """

    name: str
    error_class: ErrorClass = attrs.field(converter=_error_class)
    codes: tuple[int, ...] = attrs.field(default=(), converter=_codes, kw_only=True)
    code_class: int | None = attrs.field(default=None, kw_only=True)
    enhanced: tuple[str, ...] = attrs.field(default=(), converter=_tuple, kw_only=True)
    tokens: tuple[str, ...] = attrs.field(default=(), converter=_tokens, kw_only=True)
    words: tuple[str, ...] = attrs.field(default=(), converter=_phrases, kw_only=True)
    also: tuple[str, ...] = attrs.field(default=(), converter=_phrases, kw_only=True)
    unless: tuple[str, ...] = attrs.field(default=(), converter=_phrases, kw_only=True)
    exceptions: tuple[str, ...] = attrs.field(default=(), converter=_names, kw_only=True)
    attribute: tuple[str, Collection[object]] | None = attrs.field(default=None, kw_only=True)
    predicate: Callable[[Signal], bool] | None = attrs.field(default=None, kw_only=True)
    protocol: str | None = attrs.field(default=None, kw_only=True)
    provider: str | None = attrs.field(default=None, kw_only=True)
    phases: tuple[str | None, ...] = attrs.field(default=(), converter=_phases, kw_only=True)
    stages: tuple[str, ...] = attrs.field(default=(), converter=_tuple, kw_only=True)
    outcome: Outcome | None = attrs.field(default=None, converter=_optional_outcome, kw_only=True)
    retry_after: float | None = attrs.field(default=None, converter=_optional_seconds, kw_only=True)
    source: str = attrs.field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check what converters do not."""
        if not isinstance(self.name, str) or not self.name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"the name of a rule is {self.name!r}; allowed is text such as 'shop.card_declined'"
            )
        looks_for = (
            self.codes,
            self.code_class,
            self.enhanced,
            self.tokens,
            self.words,
            self.exceptions,
            self.attribute,
        )
        if not any((*looks_for, self.predicate, self.protocol, self.provider, self.phases, self.stages)):
            raise ConfigurationError(
                f"the rule {self.name!r} names nothing to look for; give it codes, words, exceptions ..."
            )
        if self.also and not self.words:
            raise ConfigurationError(f"the rule {self.name!r} has `also` without `words`; put the phrases into `words`")
        if self.code_class not in (None, 4, 5):
            raise ConfigurationError(
                f"code_class of the rule {self.name!r} is {self.code_class!r}; allowed are 4 and 5"
            )
        if self.protocol not in (None, *PROTOCOLS):
            raise ConfigurationError(
                f"the protocol of the rule {self.name!r} is {self.protocol!r}; allowed are {', '.join(PROTOCOLS)}, and None"
            )
        for phase in self.phases:
            if phase not in (None, *PHASES):
                raise ConfigurationError(
                    f"a phase of the rule {self.name!r} is {phase!r}; allowed are {', '.join(PHASES)}"
                )
        for pattern in self.enhanced:
            if not _PATTERN.fullmatch(pattern):
                raise ConfigurationError(
                    f"an enhanced code of the rule {self.name!r} is {pattern!r}; "
                    "allowed are '5.1.1', 'x.2.2' and '5.7.500-699'"
                )

    def is_in_scope(self, scope: Scope) -> bool:
        """Tell whether the failure's codes and place are those that the rule asks for."""
        return (
            (not self.codes or scope.code in self.codes)
            and (self.code_class is None or self.code_class == scope.code_class)
            and (not self.enhanced or any(_is_like(scope.enhanced_code, pattern) for pattern in self.enhanced))
            and (self.protocol is None or self.protocol == scope.protocol)
            and (self.provider is None or self.provider.casefold() == (scope.provider or "").casefold())
            and (not self.phases or scope.phase in self.phases)
            and (not self.stages or scope.stage in self.stages)
        )

    def matches(self, evidence: Evidence) -> bool:
        """Tell whether the failure's words, codes and type are those that the rule asks for; `is_in_scope` tells the rest."""
        return ((not self.words and not self.unless) or self._reads(evidence.words)) and self.asks_no_more(evidence)

    def asks_no_more(self, evidence: Evidence) -> bool:
        """Tell whether all but words and scope is what the rule asks for."""
        if self.exceptions and not any(name in evidence.names for name in self.exceptions):
            return False
        if self.tokens and not any(token in evidence.tokens for token in self.tokens):
            return False
        if not self.has_attribute(evidence.signal):
            return False
        return self.predicate is None or self._holds(self.predicate, evidence.signal)

    @property
    def is_settled(self) -> bool:
        """Whether a failure in scope matches, whatever its words and type are."""
        return not (self.tokens or self.words or self.unless or self.exceptions or self.attribute or self.predicate)

    @property
    def asks_for_type(self) -> bool:
        """Whether nothing but an exception's type, and perhaps one of its attributes, is asked for."""
        where = (self.codes, self.code_class, self.enhanced, self.protocol, self.provider, self.phases, self.stages)
        says = (self.tokens, self.words, self.unless, self.predicate)
        return bool(self.exceptions) and not any((*where, *says))

    def has_attribute(self, signal: Signal) -> bool:
        """Tell whether a signal has the attribute that is asked for, where one is."""
        return self.attribute is None or _has(signal, *self.attribute)

    def _reads(self, text: str) -> bool:
        return (
            (not self.words or _is_any_in(self.words, text))
            and (not self.also or _is_any_in(self.also, text))
            and not _is_any_in(self.unless, text)
        )

    def _holds(self, predicate: Callable[[Signal], bool], signal: Signal) -> bool:
        try:
            return bool(predicate(signal))
        except Exception:  # a classifier always answers, whatever an application's function does
            import logging  # only here: importing retrykit must stay cheap

            logging.getLogger("retrykit.classification").exception("the predicate of the rule %r failed", self.name)
            return False


def _is_any_in(phrases: Sequence[str], text: str) -> bool:
    for phrase in phrases:  # noqa: SIM110 - any() with a generator takes three times as long, and this is the hot loop
        if phrase in text:
            return True
    return False


def _is_like(code: str | None, pattern: str) -> bool:
    return code is not None and all(
        _is_part_like(part, wanted) for part, wanted in zip(code.split("."), pattern.split("."), strict=True)
    )


def _is_part_like(part: str, wanted: str) -> bool:
    low, dash, high = wanted.partition("-")
    return wanted == "x" or (int(low) <= int(part) <= int(high) if dash else part == wanted)


def _has(signal: Signal, name: str, values: Collection[object]) -> bool:
    try:
        return getattr(signal, name, None) in values
    except Exception:  # noqa: BLE001 - a property that raises, a value that cannot be hashed
        return False


def first_of(rules: Iterable[Rule], evidence: Evidence) -> Rule | None:
    """Return the first of some rules in scope that matches, or None; note each that was asked, where that is wanted."""
    for rule in rules:
        matched = rule.matches(evidence)
        if evidence.tried is not None:
            evidence.tried.append(Tried(rule, matched))
        if matched:
            return rule
    return None


class _Entry(NamedTuple):
    """A rule, and which phrases it looks for."""

    rule: Rule
    words: int
    also: int
    unless: int
    asks_more: bool
    """Whether it looks at more than phrases."""


class RuleList:
    """Rules in order. Remembers which of them can apply to which codes, so that a failure meets few of them."""

    __slots__ = ("_book", "_entries", "_in_scope", "_reads_words", "rules")

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules: Final = tuple(rules)
        self._in_scope: dict[Scope, tuple[_Entry, ...]] = {}
        phrases = [phrase for rule in self.rules for phrase in (*rule.words, *rule.also, *rule.unless)]
        self._book = PhraseBook(phrases)
        self._reads_words = bool(phrases)
        self._entries = tuple(self._entry(rule) for rule in self.rules)

    def first(self, evidence: Evidence) -> Rule | None:
        """Return the first rule that matches, or None."""
        if not self.rules:
            return None
        if evidence.tried is not None:
            return first_of((entry.rule for entry in self._candidates(evidence.scope)), evidence)
        present = self._book.found(evidence.words) if self._reads_words else 0
        for rule, any_of, also, unless, asks_more in self._candidates(evidence.scope):
            if any_of and not present & any_of:
                continue
            if (also and not present & also) or present & unless:
                continue
            if not asks_more or rule.asks_no_more(evidence):
                return rule
        return None

    def may_match(self, scope: Scope) -> bool:
        """Tell whether any of the rules applies to such a failure."""
        return bool(self._candidates(scope))

    def _entry(self, rule: Rule) -> _Entry:
        mask = self._book.mask
        asks_more = bool(rule.tokens or rule.exceptions or rule.attribute or rule.predicate)
        return _Entry(rule, mask(rule.words), mask(rule.also), mask(rule.unless), asks_more)

    def _candidates(self, scope: Scope) -> tuple[_Entry, ...]:
        found = self._in_scope.get(scope)
        if found is None:
            found = self._first_settled(scope)
            if len(self._in_scope) >= _MAX_SCOPES:
                self._in_scope.clear()
            self._in_scope[scope] = found
        return found

    def _first_settled(self, scope: Scope) -> tuple[_Entry, ...]:
        """Return the rules in scope, up to the first that matches without a look at the words."""
        found: list[_Entry] = []
        for entry in self._entries:
            if entry.rule.is_in_scope(scope):
                found.append(entry)
                if entry.rule.is_settled:
                    break
        return tuple(found)


class CodeTable:
    """What codes of providers mean, by "vocabulary.code": looked up, not searched.

    Args:
        table: vocabulary -> class -> codes, in lower case and divided by spaces; "ib103-106" stands for four of them.
        prefix: what the names of the rules begin with.
    """

    __slots__ = ("_meanings", "_prefix", "_rules")

    def __init__(self, table: Mapping[str, Mapping[ErrorClass, str]], prefix: str) -> None:
        self._prefix: Final = prefix
        self._meanings: Final = {
            f"{vocabulary}.{code}": (error_class, vocabulary)
            for vocabulary, meanings in table.items()
            for error_class, codes in meanings.items()
            for written in codes.split()
            for code in _each(written)
        }
        self._rules: dict[str, Rule] = {}

    def first(self, evidence: Evidence) -> Rule | None:
        """Return the rule of the first token that has a meaning, or None."""
        for token in evidence.tokens:
            rule = self._rules.get(token)
            if rule is None and token in self._meanings:
                rule = self._rules[token] = self._rule(token)
            if rule is not None:
                if evidence.tried is not None:
                    evidence.tried.append(Tried(rule, True))
                return rule
        return None

    def _rule(self, token: str) -> Rule:
        error_class, vocabulary = self._meanings[token]
        return Rule(f"{self._prefix}.{token}", error_class, tokens=token, source=f"what {vocabulary} says of its codes")


def _each(written: str) -> Iterable[str]:
    """Return the codes that a range stands for, or the one code."""
    found = _RANGE.fullmatch(written)
    if found is None:
        return (written,)
    width = len(found[2])
    return (f"{found[1]}{number:0{width}}" for number in range(int(found[2]), int(found[3]) + 1))
