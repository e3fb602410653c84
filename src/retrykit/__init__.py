"""retrykit decides what happens to work that failed.

The names here are loaded on first use: importing retrykit costs next to nothing.
"""

TYPE_CHECKING = False  # type checkers take it for typing's, whose import would cost more than all else here
if TYPE_CHECKING:
    from .backends import open_async_backend, open_backend
    from .breaker import CircuitBreaker
    from .budget import RetryBudget
    from .classification import ErrorClassifier, HttpReply, SmtpReply, TaggedError, stage, tag
    from .dead_letter import DeadLetter
    from .decision import Action, Decision, Disposition
    from .dispatch import AsyncDispatcher, Dispatcher
    from .errors import RetrykitError, RetryLater
    from .failover import Failover, Provider
    from .failure import ErrorClass, ErrorGroup, Failure, Outcome
    from .message import Message
    from .policy import EMAIL_MATRIX, HTTP_API_MATRIX, PolicyMatrix, RetryPolicy
    from .retrying import retry
    from .retrying.combined import resilient
    from .scheduler import AsyncRetryScheduler, RetryScheduler

__all__ = [
    "EMAIL_MATRIX",
    "HTTP_API_MATRIX",
    "Action",
    "AsyncDispatcher",
    "AsyncRetryScheduler",
    "CircuitBreaker",
    "DeadLetter",
    "Decision",
    "Dispatcher",
    "Disposition",
    "ErrorClass",
    "ErrorClassifier",
    "ErrorGroup",
    "Failover",
    "Failure",
    "HttpReply",
    "Message",
    "Outcome",
    "PolicyMatrix",
    "Provider",
    "RetryBudget",
    "RetryLater",
    "RetryPolicy",
    "RetryScheduler",
    "RetrykitError",
    "SmtpReply",
    "TaggedError",
    "open_async_backend",
    "open_backend",
    "resilient",
    "retry",
    "stage",
    "tag",
]

_HOMES = {
    "backends": "open_async_backend open_backend",
    "breaker": "CircuitBreaker",
    "budget": "RetryBudget",
    "classification": "ErrorClassifier HttpReply SmtpReply TaggedError stage tag",
    "dead_letter": "DeadLetter",
    "decision": "Action Decision Disposition",
    "dispatch": "AsyncDispatcher Dispatcher",
    "errors": "RetrykitError RetryLater",
    "failover": "Failover Provider",
    "failure": "ErrorClass ErrorGroup Failure Outcome",
    "message": "Message",
    "policy": "EMAIL_MATRIX HTTP_API_MATRIX PolicyMatrix RetryPolicy",
    "retrying": "retry",
    "retrying.combined": "resilient",
    "scheduler": "AsyncRetryScheduler RetryScheduler",
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
