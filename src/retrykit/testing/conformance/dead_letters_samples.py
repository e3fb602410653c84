"""Dead letters for the suites."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from ...dead_letter import DeadLetter, DeadLetterState, Edit, PayloadState, dead_letter_id
from ...decision import Action, Attempt, DeadLetterReason
from ...failure import ErrorClass, ErrorGroup, Failure, Outcome
from ...stores.dead_letter_query import DeadLetterQuery
from ...stores.dead_letters import DeadLetterStore

__all__ = ["CHANGES", "DIED", "EDIT", "LETTERS", "full_letter", "letter", "query_of"]

DIED: Final = datetime(2026, 1, 1, tzinfo=UTC)

EDIT: Final = Edit(payload=b"\xff mended", attributes={"tenant": "acme"}, by="ada", why="a comma too many", at=DIED)

CHANGES: Final[dict[str, Callable[[DeadLetterStore, str], DeadLetter | None]]] = {
    "put_back": lambda store, letter_id: store.put_back(letter_id, redrive_id="r-1", note="fixed"),
    "supersede": lambda store, letter_id: store.supersede(letter_id),
    "discard": lambda store, letter_id: store.discard(letter_id, note="ada: obsolete"),
    "edit": lambda store, letter_id: store.edit(letter_id, EDIT),
}
"""What people and runners do to a letter."""


def letter(message_id: str = "m", generation: int = 1, **fields: Any) -> DeadLetter:
    """Return a letter with the fields given."""
    usual: dict[str, Any] = {
        "id": dead_letter_id(message_id, generation),
        "message_id": message_id,
        "generation": generation,
        "error_class": ErrorClass.MAILBOX_FULL,
        "reason": DeadLetterReason.RETRIES_EXHAUSTED,
        "attempt_count": 4,
        "last_failed_at": DIED,
        "dead_lettered_at": DIED,
        "original_payload": b"\xff not JSON",
    }
    return DeadLetter(**usual | fields)


def query_of(**fields: Any) -> DeadLetterQuery:
    """Return a query whose fields a test chose."""
    return DeadLetterQuery(**fields)


def full_letter() -> DeadLetter:
    """Return a letter in which every field is set, one of a newer version included."""
    failure = Failure(error_class=ErrorClass.MAILBOX_FULL, outcome=Outcome.REJECTED, error_message="mailbox full")
    attempt = Attempt(
        number=1, generation=3, failed_at=DIED, failure=failure, action=Action.DEAD_LETTER, delay=0.0, reason="all used"
    )
    return letter(
        generation=3,
        source="orders",
        campaign_id="spring",
        recipient="ada@example.org",
        provider="ses",
        error_code="552",
        enhanced_code="5.2.2",
        error_message="mailbox full",
        stage="send",
        first_failed_at=datetime(2025, 12, 31, tzinfo=UTC),
        attempts=(attempt, attempt),
        decision="all used",
        fingerprint="v1:abc",
        redrive_count=2,
        payload_state=PayloadState.ENCRYPTED,
        payload_cipher="vault",
        capture_note="some texts are left out",
        attributes={"tenant": "acme"},
        extra={"mood": [1, None]},
    )


LETTERS: Final = (
    letter("a", campaign_id="spring", provider="ses", error_code="552"),
    letter("b", campaign_id="spring", provider="backup", error_class=ErrorClass.GREYLISTED, error_code="451"),
    letter(
        "c",
        campaign_id="autumn",
        provider="ses",
        error_class=ErrorClass.INVALID_PAYLOAD,
        reason=DeadLetterReason.INVALID_PAYLOAD,
    ),
    letter("d", error_class=ErrorClass("own", group=ErrorGroup.INTERNAL), state=DeadLetterState.DISCARDED),
    letter("e", provider="ses", error_code="", reason=DeadLetterReason.EXPIRED),
)
"""Five letters that differ in the fields by which they are found."""
