"""The runbook: for each rule what it means, with its constants, and what to type first. It is made from the rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..errors import ConfigurationError
from ..machines.alert_rules import DEFAULT_RULES, Rule
from ..machines.rule_checks import check_rules

__all__ = ["runbook_page"]

_HEAD: Final = """# Runbook

What each alert means, and what to type first. The page is made from the rules themselves: `retrykit alerts runbook`.

Whatever it is, the order is the same: is it the provider, the data, or code that was deployed; pause the campaign or leave the
provider; look at the top classes and at samples; put back only after the cause is confirmed. `retrykit runbook` goes through it, with
what the store holds.

The commands work on the backend that `RETRYKIT_URL` names, or `url` in `[tool.retrykit]` of the project; elsewhere give each `--url`.
`retrykit alerts --url ...` prints them with it.
"""


def runbook_page(rules: Iterable[Rule] = DEFAULT_RULES) -> str:
    """Return the runbook of rules as Markdown, an entry for each, under the name that its alerts give.

    Raises:
        ConfigurationError: a rule is not allowed, or two have one name.

    Example:
        >>> from retrykit.monitor import UnknownCodesAppear
        >>> print(runbook_page([UnknownCodesAppear()]).partition("## ")[2])  # doctest: +ELLIPSIS
        unknown-code
        <BLANKLINE>
        Severity: ticket. A classifier met a provider's code...
    """
    return "\n".join([_HEAD, *(_entry(rule) for rule in check_rules(rules))])


def _entry(rule: Rule) -> str:
    if not isinstance(rule, Rule):  # pyright: ignore[reportUnnecessaryIsInstance] - a monitor takes less for a rule
        raise ConfigurationError(
            f"a rule is {rule!r}, which does not say what it means; allowed are subclasses of Rule"
        )
    steps = "\n".join(rule.first_steps)
    return f"## {rule.name}\n\nSeverity: {rule.severity.value}. {rule.meaning}\n\n```console\n{steps}\n```\n"
