"""Alerts that wake people for a reason: the monitor, its rules, who is told, and what to do then."""

from ..machines.alert_rules import (
    DEFAULT_RULES,
    BacklogGrows,
    BreakerOpens,
    DeadLettersJump,
    ErrorClassDominates,
    MessageQuarantines,
    Rule,
    UnknownCodesAppear,
)
from ..machines.alerts import Alert, AlertState, Finding, Severity
from ..machines.signals import Signals
from .monitor import AsyncMonitor, Monitor
from .notifiers import LogNotifier, WebhookNotifier
from .prometheus_rules import prometheus_rules
from .runbook import runbook_page

__all__ = [
    "DEFAULT_RULES",
    "Alert",
    "AlertState",
    "AsyncMonitor",
    "BacklogGrows",
    "BreakerOpens",
    "DeadLettersJump",
    "ErrorClassDominates",
    "Finding",
    "LogNotifier",
    "MessageQuarantines",
    "Monitor",
    "Rule",
    "Severity",
    "Signals",
    "UnknownCodesAppear",
    "WebhookNotifier",
    "prometheus_rules",
    "runbook_page",
]
