"""What exceptions say of themselves besides their type: codes and states, each where its library keeps it.

Nothing here raises, whatever stands on an exception. Each function that rules use looks for certain values and gives a
predicate; it is asked for exceptions of the rule's own types only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias, cast

from .rules import qualified_name

__all__ = [
    "attribute_of",
    "called",
    "grpc_status",
    "has_no_sqlstate",
    "is_about_mail_routing",
    "is_caused_by",
    "is_fatal",
    "is_retriable",
    "kafka_code",
    "mysql_number",
    "pairs_of",
    "sqlite_code",
    "sqlstate",
]

Predicate: TypeAlias = Callable[[object], bool]

_MAX_CAUSES: Final = 16
_MX: Final = 15
"""The type of DNS records that say where a domain's mail goes, RFC 1035."""


def attribute_of(value: object, name: str) -> object:
    """Return an attribute; None where there is none or reading it raises."""
    try:
        return cast("object", getattr(value, name, None))
    except Exception:  # noqa: BLE001 - a property that raises
        return None


def called(value: object, name: str) -> object:
    """Return what a method without arguments gives; None where there is none or it raises."""
    method = attribute_of(value, name)
    try:
        return cast("object", method()) if callable(method) else None
    except Exception:  # noqa: BLE001 - a method that raises
        return None


def pairs_of(mapping: object) -> list[tuple[object, object]]:
    """Return the pairs of a mapping, or of what is like one; none where they cannot be read."""
    try:
        return [
            (name, value) for name, value in cast("Iterable[tuple[object, object]]", called(mapping, "items") or ())
        ]
    except Exception:  # noqa: BLE001 - what is no pair, an iterator that raises
        return []


def _first_argument(error: object) -> object:
    arguments = attribute_of(error, "args")
    return cast("tuple[object, ...]", arguments)[0] if isinstance(arguments, tuple) and arguments else None


def sqlstate(*beginnings: str) -> Predicate:
    """Look for an SQLSTATE that begins so: a class of two characters, or a whole state of five."""

    def is_met(error: object) -> bool:
        state = attribute_of(error, "sqlstate") or attribute_of(error, "pgcode")
        return isinstance(state, str) and state.startswith(beginnings)

    return is_met


def has_no_sqlstate(error: object) -> bool:
    """Tell whether a database's error has no SQLSTATE: the client library has made it itself."""
    return not (attribute_of(error, "sqlstate") or attribute_of(error, "pgcode"))


def sqlite_code(*primary: int) -> Predicate:
    """Look for a result code of SQLite, also in its extended forms: their low byte is the primary code."""

    def is_met(error: object) -> bool:
        code = attribute_of(error, "sqlite_errorcode")
        return isinstance(code, int) and code & 0xFF in primary

    return is_met


def mysql_number(*numbers: int) -> Predicate:
    """Look for an error number of MySQL, the exception's first argument."""
    return lambda error: _is_among(_first_argument(error), numbers)


def grpc_status(*names: str) -> Predicate:
    """Look for the name of a gRPC status, which the method `code` gives."""
    return lambda error: _is_among(attribute_of(called(error, "code"), "name"), names)


def kafka_code(*names: str) -> Predicate:
    """Look for the name of the `KafkaError` that is the exception's first argument."""
    return lambda error: _is_among(called(_first_argument(error), "name"), names)


def is_fatal(error: object) -> bool:
    """Tell whether a Kafka client says that it cannot go on."""
    return called(_first_argument(error), "fatal") is True


def is_retriable(error: object) -> bool:
    """Tell whether a Kafka client says that the same request may succeed later."""
    return called(_first_argument(error), "retriable") is True


def _is_among(value: object, values: Collection[object]) -> bool:
    return isinstance(value, (int, str)) and value in values


def is_about_mail_routing(error: object) -> bool:
    """Tell whether a name was not found that was looked up as the domain of a mail address: its MX records."""
    arguments = attribute_of(error, "kwargs")
    responses = cast("Mapping[str, object]", arguments).get("responses") if isinstance(arguments, Mapping) else None
    return any(_is_mx(response) for _, response in pairs_of(responses))


def _is_mx(response: object) -> bool:
    question = attribute_of(response, "question")
    return isinstance(question, list) and any(
        attribute_of(each, "rdtype") == _MX for each in cast("list[object]", question)
    )


def is_caused_by(name: str) -> Predicate:
    """Look for an exception of a type, by its qualified name, behind an error that gives it as its cause.

    Followed are `__cause__`, arguments and members of groups; not `__context__`, which may be the application's own.
    """

    def is_met(error: object) -> bool:
        found = [cast("BaseException", error)]
        for each in found:  # grows while it is walked
            if any(qualified_name(base) == name for base in type(each).__mro__):
                return True
            found += [inner for inner in _causes(each) if not any(inner is other for other in found)]
            del found[_MAX_CAUSES:]
        return False

    return is_met


def _causes(error: BaseException) -> list[BaseException]:
    members = (
        cast("BaseExceptionGroup[BaseException]", error).exceptions if isinstance(error, BaseExceptionGroup) else ()
    )
    return [each for each in (error.__cause__, *error.args, *members) if isinstance(each, BaseException)]
