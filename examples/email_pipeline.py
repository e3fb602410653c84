"""A mail pipeline on one SQLite file: nothing is lost and nothing is sent twice, whatever the send does."""

import random
import smtplib
import tempfile

from retrykit import Dispatcher, Message, RetryScheduler, open_backend
from retrykit.clock import ScaledClock
from retrykit.validation import address

clock = ScaledClock(speed=20_000)  # quarters of an hour pass in a blink; leave it out in production
queue = [Message(f"welcome-{n}", {"name": "Ada"}, {"recipient": f"user{n}@example.org"}) for n in range(20)]


def send(message: Message, key: str) -> str:
    """Stand for your provider's call; `key` lets the provider drop duplicates too."""
    if message.id.endswith("7"):
        raise smtplib.SMTPResponseException(550, "5.1.1 The account does not exist")
    if random.random() < 0.3:
        raise smtplib.SMTPResponseException(451, "4.7.1 Greylisted, please come back later")
    return f"provider-{key}"


with tempfile.TemporaryDirectory() as folder:
    backend = open_backend(f"sqlite:///{folder}/mail.db", clock=clock)
    dispatcher = Dispatcher(send, backend=backend, validate=address("recipient"), clock=clock)
    scheduler = RetryScheduler(backend, queue.append, clock=clock)
    while queue or backend.retries.stats().waiting:
        if queue:
            print(dispatcher.handle(queue.pop(0)).kind.value, end=" ")  # a real queue acks here
        scheduler.run_once()
    print("\n", {status.value: count for status, count in backend.deliveries.counts().items()})
    backend.close()
