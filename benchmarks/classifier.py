"""How fast failures are classified: `python benchmarks/classifier.py [--replies FILE]`.

Replies are made from templates with addresses, hosts and numbers that differ in each, so that no two texts are equal; `--replies`
takes them from a file of JSON lines instead (`code`, `enhanced`, `text`). Making the reply object is measured with it. For
comparison stands the least that one would write by hand: the basic code, looked up. Then texts of a megabyte, each timed alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from retrykit import ErrorClassifier, HttpReply, SmtpReply

Row = tuple[int | None, str | None, str]

TEMPLATES: tuple[Row, ...] = (
    (550, "5.1.1", "5.1.1 <{a}>: Recipient address rejected: User unknown in virtual mailbox table"),
    (550, None, "Requested action not taken: mailbox unavailable ({n})"),
    (452, "4.2.2", "4.2.2 <{a}> The mailbox is over quota, id {n}"),
    (552, "5.2.2", "5.2.2 mailbox of {a} is full"),
    (451, "4.7.1", "4.7.1 <{a}>: Recipient address rejected: Greylisted, try again in {n} seconds"),
    (421, "4.7.0", "4.7.0 {h} too many connections from your address {i}"),
    (
        554,
        "5.7.1",
        "5.7.1 Service unavailable; client host [{i}] blocked using bl.example.net; see https://bl.example.net/q?{n}",
    ),
    (550, "5.7.26", "5.7.26 This mail from {h} lacks SPF and DKIM, session {n}"),
    (550, "5.7.1", "5.7.1 message {n} looks like spam"),
    (450, "4.1.8", "4.1.8 <{a}>: Sender address rejected: Domain not found"),
    (554, "5.4.7", "5.4.7 host {h} said: delivery expired after {n} tries (in reply to RCPT TO command)"),
    (553, None, "sorry, that domain isn't in my list of allowed rcpthosts, {n}"),
    (421, None, "{h} closing channel {n}"),
    (550, None, "no reason is given here for {a}, {n}"),
    (None, None, "delivery to {a} is delayed, {n}"),
)
"""In our own words: typical replies of each class."""

BODIES = (
    (429, b'{"message": "Too many requests, %d"}'),
    (400, b'{"code": 21211, "message": "Invalid To %d", "more_info": "https://www.twilio.com/docs/errors/21211"}'),
    (422, b'{"ErrorCode": 406, "Message": "inactive recipient %d"}'),
    (400, b'{"__type": "com.amazonaws.ses#MessageRejected", "message": "Email address is not verified, %d"}'),
    (503, b"<html><body>Service Unavailable %d</body></html>"),
)

HOSTILE: dict[str, str] = {
    "one word": "a" * 1_000_000,
    "spaces": " " * 1_000_000,
    "codes": "5.1.1 " * 170_000,
    "codes without an end": "5.1." * 250_000,
    "lines of a reply": "550-5.1.1 user unknown\r\n" * 40_000,
    "addresses": "<a@b>" * 200_000,
    "open brackets": "(" * 1_000_000,
    "waits": "try again in " * 80_000,
    "phases": "in reply to " * 80_000 + ">>> rcpt to " * 5_000,
    "phrases torn": "no such use " * 90_000,
    "not ASCII": "\u00fc\u4e0d" * 500_000,
}


def rows_of(path: Path | None, number: int) -> list[Row]:
    """Return so many replies, all different."""
    source = list(TEMPLATES)
    if path is not None:
        parsed = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        source = [
            (each["code"], each.get("enhanced"), each["text"].replace("{", "(").replace("}", ")")) for each in parsed
        ]
    rng = random.Random(1)
    rows: list[Row] = []
    for place in range(number):
        code, enhanced, text = source[place % len(source)]
        address = f"user{rng.randrange(10**6)}@example{rng.randrange(1000)}.org"
        host, ip = f"mx{rng.randrange(1000)}.example.net", f"192.0.2.{rng.randrange(256)}"
        filled = text.format(a=address, h=host, i=ip, n=rng.randrange(10**6))
        rows.append((code, enhanced, filled if path is None else f"{filled} {address} {rng.randrange(10**6)}"))
    return rows


def rate(work: Callable[[], object], number: int, rounds: int) -> float:
    """Return how many a second, the median of some rounds."""
    taken: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return number / statistics.median(taken)


def caught(error: Exception) -> Exception:
    """Return an exception as one that was raised."""
    try:
        raise error  # noqa: TRY301 - that is what it does
    except Exception as same:  # noqa: BLE001 - whatever it is
        return same


def by_code(rows: Sequence[Row]) -> list[str]:
    """Classify as one would by hand, by the basic code alone."""
    return [{4: "later", 5: "never"}.get((code or 0) // 100, "unknown") for code, _, _ in rows]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replies", type=Path, help="a file of JSON lines with code, enhanced and text")
    parser.add_argument("--number", type=int, default=20_000, help="signals in a round (default 20,000)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of which the median counts (default 9)")
    options = parser.parse_args()
    number, rounds = options.number, options.rounds
    print(
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, median of {rounds} rounds, one core\n"
    )
    classifier = ErrorClassifier()
    rows = rows_of(options.replies, number)
    errors: list[Exception] = [
        kind(place, f"no answer from 192.0.2.{place % 256}")
        for place in range(number // 4)
        for kind in (ConnectionResetError, TimeoutError, ValueError, KeyError)
    ]
    raised = [caught(each) for each in errors]
    bodies = [(status, body % place) for place in range(number // 20) for status, body in BODIES]
    for name, count, work in (
        (
            "SMTP replies, all different",
            len(rows),
            lambda: [classifier.classify(SmtpReply(c, t, enhanced_code=e)) for c, e, t in rows],
        ),
        ("by hand: the basic code alone", len(rows), lambda: by_code(rows)),
        ("exceptions, raised", len(raised), lambda: [classifier.classify(each) for each in raised]),
        (
            "HTTP answers with bodies",
            len(bodies),
            lambda: [classifier.classify(HttpReply(s, body=b)) for s, b in bodies],
        ),
    ):
        print(f"{name:34}{rate(work, count, rounds):12,.0f} a second")
    print("\nTexts of a megabyte, milliseconds each (the worst of SMTP reply, HTTP body and exception)")
    for name, text in HOSTILE.items():
        print(f"{name:34}{worst(classifier, text):12.1f}")


def worst(classifier: ErrorClassifier, text: str) -> float:
    """Return the milliseconds of the slowest answer about a text."""
    body = text.encode()
    slowest = 0.0
    for work in (
        lambda: classifier.classify(SmtpReply(550, text)),
        lambda: classifier.classify(SmtpReply(None, body)),
        lambda: classifier.classify(HttpReply(500, {"Retry-After": text[:10_000]}, body)),
        lambda: classifier.classify(HttpReply(400, body=json.dumps({"error": text}))),
        lambda: classifier.classify(ConnectionError(text)),
    ):
        began = time.perf_counter()
        work()
        slowest = max(slowest, time.perf_counter() - began)
    return slowest * 1000


if __name__ == "__main__":
    main()
