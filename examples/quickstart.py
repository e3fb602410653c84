"""Decorate a send function: calls that fail for want of a connection are made again, others are not."""

import random

from retrykit import retry


@retry(on=ConnectionError, attempts=5, backoff=[0.01, 0.05])
def send(recipient: str) -> str:
    """Stand for your client's call; it fails now and then."""
    if random.random() < 0.3:
        raise ConnectionResetError("the provider hung up")
    return f"sent to {recipient}"


print(send("ada@example.org"))
