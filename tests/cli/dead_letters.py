"""A store with dead letters, and the commands called on it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities import require

require("click", "rich")

from click.testing import CliRunner, Result

from retrykit import Dispatcher, Message, RetryScheduler
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.classification import TaggedError
from retrykit.cli.app import app
from retrykit.deadletter import Capture
from retrykit.failure import ErrorClass


class TemplateError(TaggedError):
    error_class = ErrorClass.RENDERING_FAILURE


class Post:
    """A file with dead letters: of a broken template, and of refused content."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "mail.db"
        self.url = f"sqlite:///{self.file}"
        self.broken: Callable[[Message], bool] = lambda _: True
        self.sent: list[str] = []
        self.is_attended = True
        self.capture: Capture | None = None

    def backend(self) -> SQLiteBackend:
        return SQLiteBackend(self.file, synchronous="normal")

    def die(self, count: int, campaign: str = "spring") -> None:
        """Let messages die of the broken template."""
        backend = self.backend()
        for number in range(count):
            attributes = {"campaign_id": campaign, "provider": "ses", "recipient": f"{number}@example.org"}
            self._dispatcher(backend).handle(Message(f"{campaign}-{number}", {"n": number}, attributes))
        backend.close()

    def _dispatcher(self, backend: SQLiteBackend) -> Any:
        return Dispatcher(self._send, render=self._render, backend=backend, capture=self.capture)

    def _render(self, message: Message) -> None:
        if self.broken(message):
            raise TemplateError("no first_name\x1b[2J [red]")

    def _send(self, message: Message, key: str, content: object) -> None:
        self.sent.append(message.id)

    def run(self, *args: str, answer: str | None = None) -> Result:
        """Call a command on the file; with an answer as from a terminal."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("retrykit.cli.output.is_attended", lambda: answer is not None)
            patch.setattr("retrykit.cli.dlq_change.is_attended", lambda: self.is_attended)
            return self._call(args, answer)

    def _call(self, args: tuple[str, ...], answer: str | None) -> Result:
        return CliRunner().invoke(app, list(args), input=answer, env={"RETRYKIT_URL": self.url, "USER": "ada"})

    def json(self, *args: str) -> Any:
        """Call a command with --json; return the object, or the list of the objects of all lines."""
        result = self.run(*args, "--json")
        assert result.exception is None or result.exit_code == 1, result.output
        return json.loads(result.stdout)

    def lines(self, *args: str) -> list[Any]:
        result = self.run(*args, "--json")
        assert 0 == result.exit_code, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def working(self) -> Working:
        """Give a worker and a scheduler that run within a block."""
        return Working(self)


class Working:
    """Workers beside the command, as a service has them."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        backend = self._post.backend()
        queue: list[Message] = []
        scheduler = RetryScheduler(backend, queue.append)
        dispatcher = self._post._dispatcher(backend)
        while not self._ended.wait(0.02):
            scheduler.run_once()
            while queue:
                dispatcher.handle(queue.pop())
        backend.close()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
