"""The store contracts: what a user may subclass, and what every backend provides.

Seven contracts, each in a synchronous and an asynchronous form with the same names: claims, retries, dead letters,
deliveries, circuits, redrives, signals.
"""

from .as_async import as_async
from .backend import AsyncBackend, Backend
from .circuits import AsyncCircuitStore, Circuit, CircuitStore, Pause
from .claims import (
    AsyncClaimStore,
    ClaimAnswer,
    Claimed,
    ClaimRecord,
    ClaimState,
    ClaimStore,
    ClaimTerms,
    Counters,
    Done,
    InProgress,
    NotDue,
    PoisonRule,
    ReopenTerms,
    Replaced,
    Suspect,
    Unknown,
)
from .dead_letter_figures import DeadLetterStats, DeadLetterTrend
from .dead_letter_groups import DeadLetterGroup, DeadLetterGroupPage, GroupChange, GroupNote, GroupOrder
from .dead_letter_query import DeadLetterQuery
from .dead_letters import AsyncDeadLetterStore, DeadLetterPage, DeadLetterStore, Facet
from .deliveries import AsyncDeliveryStore, Delivery, DeliveryEvent, DeliveryFailure, DeliveryStatus, DeliveryStore
from .redrives import AsyncRedriveStore, AuditEntry, JobChange, RedriveJob, RedriveState, RedriveStore
from .retries import AsyncRetryStore, DueMessage, RetryStats, RetryStore
from .signals import AsyncSignalStore, SignalChange, Signals, SignalStore

__all__ = [
    "AsyncBackend",
    "AsyncCircuitStore",
    "AsyncClaimStore",
    "AsyncDeadLetterStore",
    "AsyncDeliveryStore",
    "AsyncRedriveStore",
    "AsyncRetryStore",
    "AsyncSignalStore",
    "AuditEntry",
    "Backend",
    "Circuit",
    "CircuitStore",
    "ClaimAnswer",
    "ClaimRecord",
    "ClaimState",
    "ClaimStore",
    "ClaimTerms",
    "Claimed",
    "Counters",
    "DeadLetterGroup",
    "DeadLetterGroupPage",
    "DeadLetterPage",
    "DeadLetterQuery",
    "DeadLetterStats",
    "DeadLetterStore",
    "DeadLetterTrend",
    "Delivery",
    "DeliveryEvent",
    "DeliveryFailure",
    "DeliveryStatus",
    "DeliveryStore",
    "Done",
    "DueMessage",
    "Facet",
    "GroupChange",
    "GroupNote",
    "GroupOrder",
    "InProgress",
    "JobChange",
    "NotDue",
    "Pause",
    "PoisonRule",
    "RedriveJob",
    "RedriveState",
    "RedriveStore",
    "ReopenTerms",
    "Replaced",
    "RetryStats",
    "RetryStore",
    "SignalChange",
    "SignalStore",
    "Signals",
    "Suspect",
    "Unknown",
    "as_async",
]
