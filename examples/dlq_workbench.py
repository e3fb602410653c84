"""A bad deployment at 3 a.m.: a template breaks, its mails die, and one command's worth of work puts exactly those back.

Runs by itself on a SQLite file in a temporary folder: python examples/dlq_workbench.py
"""

from __future__ import annotations

import string
import tempfile
from pathlib import Path

from retrykit import Dispatcher, Message, RetryScheduler, open_backend
from retrykit.dead_letter_queue import DeadLetterQueue
from retrykit.redrive import Redriver
from retrykit.stores import Backend, DeadLetterQuery

GOOD = string.Template("Hello $first_name, your parcel is on its way.")
BAD = string.Template("Hello $frist_name, your parcel is on its way.")  # release 41, at 3 a.m.


class Service:
    """A consumer of a queue that renders a template and sends it."""

    def __init__(self, backend: Backend) -> None:
        self.template = GOOD
        self.sent: list[str] = []
        self.queue: list[Message] = []
        self.dispatcher = Dispatcher(self.send, render=self.render, backend=backend)
        self.scheduler = RetryScheduler(backend, self.queue.append)

    def render(self, message: Message) -> str:
        """Fill the template in."""
        payload = message.payload
        assert isinstance(payload, dict)
        return self.template.substitute(payload)

    def send(self, message: Message, key: str, text: str) -> str:
        """Hand the mail to the provider."""
        self.sent.append(message.id)
        return f"provider-{key}"

    def work(self) -> None:
        """Do what is in the queue, and what the scheduler puts back there."""
        while True:
            while self.queue:
                self.dispatcher.handle(self.queue.pop(0))
            if not self.scheduler.run_once():
                return


def main(folder: Path) -> None:
    """Tell the story."""
    backend = open_backend(f"sqlite:///{folder / 'mail.db'}")
    service = Service(backend)
    letters, bench, runner = backend.dead_letters, DeadLetterQueue(backend), Redriver(backend)

    service.template = BAD
    for number in range(60):
        attributes = {"campaign_id": "parcels", "recipient": f"customer{number}@example.org"}
        service.queue.append(Message(f"parcel-{number}", {"first_name": f"Customer {number}"}, attributes))
    service.work()
    print(f"{letters.stats().quarantined} mails have died, {len(service.sent)} were sent")

    (group,) = letters.groups(DeadLetterQuery.parse("campaign:parcels since:1h")).groups
    print(f"one cause: {group.total} x {group.error_class}, {group.error_message}")
    sample = letters.get(group.letter_ids[0])
    assert sample is not None
    print(f"for example {sample.id}: {sample.original_payload.decode()}")
    letters.annotate(group.fingerprint, by="ada", owner="mail team", note="release 41 misspelt first_name")

    plan = bench.plan(f"fingerprint:{group.fingerprint}")
    print(f"the plan: {plan.count} letters, warnings: {list(plan.warnings)}")

    job = bench.redrive(plan, root_cause="release 41 misspelt first_name", by="ada", canary=5)
    while runner.step(job.id).state == "running":  # the template is still broken: the canary finds that out
        service.work()
    stopped = backend.redrives.get(job.id)
    assert stopped is not None
    print(f"{stopped.state.value}: {stopped.note}; sent {len(service.sent)}")

    service.template = GOOD  # release 42
    bench.resume(job.id, by="ada", why="release 42 is out now")
    while (stand := runner.step(job.id)).state == "running":
        service.work()
    print(f"{stand.state.value}: {stand.note}")

    rest = bench.redrive(bench.plan(f"fingerprint:{group.fingerprint}"), root_cause="the failed canary", by="ada")
    while (stand := runner.step(rest.id)).state == "running":
        service.work()
    print(f"{stand.state.value}: {stand.note}")

    stats = letters.stats()
    print(
        f"{stats.quarantined} wait; sent {len(service.sent)}, each once: {len(set(service.sent)) == len(service.sent)}"
    )
    for entry in reversed(backend.redrives.audit()):
        print(f"  {entry.by} {entry.action}: {entry.why or entry.result}")
    backend.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
