"""`retrykit classify`: what the classifier makes of an answer, and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

import click
from rich.console import Console

from ..classification import ErrorClassifier, HttpReply, Signal, SmtpReply, load_rules
from ..classification.explanation import Explanation
from ..classification.smtp import PHASES
from ..codec import JSON
from ..decision import Action, Decision
from ..delivery import parse_bounce, parse_events
from ..errors import RetrykitError
from ..policy import PolicyMatrix
from ..times import short
from .output import Unusable, as_json, console, load_matrix, printable, table

__all__ = ["classify"]

_READABLE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.command()
@click.option("--smtp", metavar="REPLY", help='An SMTP reply, code and text: "550 5.1.1 user unknown".')
@click.option("--http", "status", type=int, metavar="STATUS", help="An HTTP answer, by its status.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME:VALUE", help="A field of the HTTP answer; may be repeated."
)
@click.option("--body", help="The body of the HTTP answer.")
@click.option("--body-file", type=_READABLE, help="A file that holds the body; - for standard input.")
@click.option("--event", "event", type=_READABLE, help="A file that holds a provider's webhook body; needs --provider.")
@click.option("--bounce", type=_READABLE, help="A file that holds a bounce message as it came by mail.")
@click.option(
    "--file", "replies", type=_READABLE, help="A file of SMTP replies, each on a line or more; - for standard input."
)
@click.option("--provider", help="Who answered: ses, sendgrid, ... or a name of your own.")
@click.option("--phase", type=click.Choice(PHASES), help="What the SMTP server answered to.")
@click.option("--rules", type=_READABLE, help="A TOML file with rules of your own, which are asked first.")
@click.option(
    "--matrix", "matrix_name", metavar="FILE|email|http", default="email", show_default=True, help="What decides."
)
@click.option("--all", "show_all", is_flag=True, help="Also print every rule that was asked.")
@as_json
def classify(
    smtp: str | None,
    status: int | None,
    headers: tuple[str, ...],
    body: str | None,
    body_file: Path | None,
    event: Path | None,
    bounce: Path | None,
    replies: Path | None,
    provider: str | None,
    phase: str | None,
    rules: Path | None,
    matrix_name: str,
    show_all: bool,
    json_: bool,
) -> None:
    """Say what kind of failure an answer is, which rule says so, and what the matrix decides.

    \b
    retrykit classify --smtp "550 5.1.1 user unknown"
    retrykit classify --http 429 --header "Retry-After: 30"
    retrykit classify --http 400 --provider twilio --body-file answer.json --all
    retrykit classify --file replies.txt --json

    In a --file, lines "550-..." and "550 ..." that follow each other are one reply. With --json: one JSON object on each line, in the
    order of the replies.
    """  # noqa: D301 - the mark by which click keeps the lines apart
    asked = {"--smtp": smtp, "--http": status, "--event": event, "--bounce": bounce, "--file": replies}
    given = [name for name, value in asked.items() if value is not None]
    if len(given) != 1:
        raise click.UsageError(f"give one of {', '.join(asked)}" + (f", not {' and '.join(given)}" if given else ""))
    _check(
        {
            "--header, --body and --body-file belong to an HTTP answer: --http": status is None
            and bool(headers or body is not None or body_file),
            "--phase belongs to SMTP replies: --smtp, --file": bool(phase) and smtp is None and replies is None,
            "--all is for one answer, not for a --file of them": show_all and replies is not None,
            "give --body or --body-file, not both": body is not None and body_file is not None,
            "--event needs --provider: each has a form of its own": event is not None and provider is None,
        }
    )
    try:
        judge = _Judge(ErrorClassifier(load_rules(rules) if rules else ()), load_matrix(matrix_name), provider)
        if replies is not None:
            with click.open_file(str(replies), "rb") as lines:
                _print_many(judge, _replies(lines, phase), json_)
            return
        signals: Iterable[Signal]
        if smtp is not None:
            signals = [SmtpReply.parse(smtp, phase=phase)]
        elif status is not None:
            content: bytes | str | None = _read(body_file) if body_file else body
            signals = [HttpReply(status, [_header(each) for each in headers], content)]
        elif event is not None:
            signals = parse_events(provider or "", _read(event))
        else:
            signals = parse_bounce(_read(bounce or Path("-")))
        for signal in signals:
            judge.print_one(signal, show_all, json_)
    except RetrykitError as error:
        raise Unusable(str(error)) from None


def _check(wrong: Mapping[str, bool]) -> None:
    """Refuse options that do not go together."""
    for message, is_so in wrong.items():
        if is_so:
            raise click.UsageError(message)


def _read(path: Path) -> bytes:
    with click.open_file(str(path), "rb") as file:
        return bytes(file.read())


def _header(written: str) -> tuple[str, str]:
    name, colon, value = written.partition(":")
    if not colon or not name.strip():
        raise click.UsageError(f"--header is {written!r}; allowed is NAME:VALUE")
    return name, value


def _replies(lines: IO[bytes], phase: str | None) -> Iterator[SmtpReply]:
    """Give the replies of a file; a line "550-..." goes on in the next if that begins with the same code."""
    held: list[bytes] = []
    for line in lines:
        if held and line[:3] != held[-1][:3]:
            yield SmtpReply.parse(b"".join(held), phase=phase)
            held = []
        if not line.strip():
            continue
        held.append(line)
        if not (line[:3].isdigit() and line[3:4] == b"-"):
            yield SmtpReply.parse(b"".join(held), phase=phase)
            held = []
    if held:
        yield SmtpReply.parse(b"".join(held), phase=phase)


class _Judge:
    """The classifier and the matrix together."""

    def __init__(self, classifier: ErrorClassifier, matrix: PolicyMatrix, provider: str | None) -> None:
        self.classifier: Final = classifier
        self.matrix: Final = matrix
        self.provider: Final = provider

    def ask(self, signal: Signal) -> tuple[Explanation, Decision]:
        """Return what an answer is, and what is decided on its first failure."""
        explanation = self.classifier.explain(signal, provider=self.provider)
        return explanation, self.matrix.decide(explanation.failure, 1)

    def print_one(self, signal: Signal, show_all: bool, json_: bool) -> None:
        """Print all there is to say of one answer."""
        explanation, decision = self.ask(signal)
        if json_:
            click.echo(json.dumps(_as_dict(explanation, decision, show_all)))
            return
        out = console()
        failure, rule = explanation.failure, explanation.rule
        _line(out, "class", f"{failure.error_class} ({failure.group})")
        _line(out, "outcome", failure.outcome.value)
        _line(out, "code", " ".join(each for each in (failure.error_code, failure.enhanced_code) if each))
        _line(out, "retry after", "" if failure.retry_after is None else short(failure.retry_after))
        _line(out, "rule", failure.rule)
        _line(out, "source", rule.source if rule else "")
        is_failure = failure.rule != "event.no_failure"
        _line(
            out, "decision", f"{_said(decision)}: {decision.reason}" if is_failure else "none: this tells of no failure"
        )
        if show_all:
            asked = table(f"{len(explanation.tried)} rules were asked", "", "rule", "class")
            for each in explanation.tried:
                asked.add_row("*" if each.matched else "", each.rule.name, str(each.rule.error_class))
            out.print(asked)


def _line(out: Console, name: str, value: str) -> None:
    if value:
        out.print(f"{name:13}{printable(value)}")


def _said(decision: Decision) -> str:
    return f"{decision.action} in {short(decision.delay)}" if decision.action is Action.RETRY else decision.action.value


def _as_dict(explanation: Explanation, decision: Decision, show_all: bool) -> dict[str, JSON]:
    said = explanation.to_dict()
    if not show_all:
        del said["tried"]
    return said | {"decision": {"action": decision.action.value, "delay": decision.delay, "reason": decision.reason}}


def _print_many(judge: _Judge, replies: Iterable[SmtpReply], json_: bool) -> None:
    """Print a line for each reply, and at the end how many there were of each class."""
    counts: Counter[str] = Counter()
    for reply in replies:
        explanation, decision = judge.ask(reply)
        failure = explanation.failure
        if json_:
            click.echo(json.dumps(_as_dict(explanation, decision, False)))
            continue
        counts[str(failure.error_class)] += 1
        said = printable(" ".join(failure.error_message.split())[:60])
        click.echo(
            f"{failure.error_class:24} {_said(decision):16} {failure.rule:32} {failure.error_code or '-'} {said}"
        )
    if not json_:
        total = sum(counts.values())
        made = table(f"{total:,} replies", "class", "replies", "share", right=("replies", "share"))
        for name, count in counts.most_common():
            made.add_row(name, f"{count:,}", f"{count / total:.1%}")
        console().print(made)
