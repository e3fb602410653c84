"""What is done around the dead letters: what is written down, how long it is kept, and how it moves to other stores.

The names here are loaded on first use.
"""

TYPE_CHECKING = False  # as in `retrykit` itself
if TYPE_CHECKING:
    from .capture import Capture
    from .payload import Cipher, message_of, payload_of
    from .retention import Retention, RetentionReport
    from .transfer import (
        BrokenLine,
        ImportReport,
        export_letters,
        export_letters_async,
        import_letters,
        import_letters_async,
    )

__all__ = [
    "BrokenLine",
    "Capture",
    "Cipher",
    "ImportReport",
    "Retention",
    "RetentionReport",
    "export_letters",
    "export_letters_async",
    "import_letters",
    "import_letters_async",
    "message_of",
    "payload_of",
]

_HOMES = {
    ".capture": "Capture",
    ".payload": "Cipher message_of payload_of",
    ".retention": "Retention RetentionReport",
    ".transfer": ("BrokenLine ImportReport export_letters export_letters_async import_letters import_letters_async"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
