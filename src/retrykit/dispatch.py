"""The dispatcher: one message goes through claim, parse, validate, render and send, and every outcome is carried out.

When `handle` returns, whatever became of the message is recorded, and the application may ack its own copy. When it
raises, nothing was decided and the application keeps its copy. The order of writes is what makes that safe:

    claim -> parse, validate, render -> begin_send -> send -> settle the claim -> show it in the other stores -> return
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, Unpack, overload

from ._steps import arun, is_async, run
from .decision import Disposition
from .delivery import AsyncStatusLookup, StatusLookup
from .dispatch_flow import DispatchFlow, Raw, SendResult
from .dispatch_options import DispatchOptions
from .errors import ConfigurationError
from .message import Message
from .open_claims import HandedBack
from .stores import AsyncBackend, AsyncClaimStore, Backend, ClaimStore
from .times import Duration

__all__ = ["AsyncDispatcher", "DispatchOptions", "Dispatcher", "HandedBack", "Raw", "SendResult"]

C = TypeVar("C")


class Dispatcher(DispatchFlow, Generic[C]):
    """Handles messages for synchronous callers.

    Args:
        send: called with the message, the idempotency key to hand to the provider, and what `render` gave if there is
            one; returns None, the provider's own id, or `Sent`. It has to end before the lease does.
        backend: where the stores are.
        parse: makes the message that the later stages see, of the same id; the body is checked to be JSON before.
        validate: raises when the message should not be sent.
        render: makes the content that `send` gets.
        lookup: asks the provider whether it took a message; None relies on the delivery log alone.
        options: see `DispatchOptions`.

    Raises:
        ConfigurationError: a value is not allowed, or a function is a coroutine function.

    Example:
        >>> from retrykit.backends import MemoryBackend
        >>> dispatcher = Dispatcher(lambda message, key: "provider-id-1", backend=MemoryBackend())
        >>> dispatcher.handle(b'{"id": "welcome-17"}').kind.value
        'sent'
        >>> dispatcher.handle(b'{"id": "welcome-17"}').kind.value
        'duplicate'
    """

    @overload
    def __init__(
        self: Dispatcher[None],
        send: Callable[[Message, str], SendResult],
        *,
        backend: Backend,
        parse: Callable[[Message], Message] | None = ...,
        validate: Callable[[Message], object] | None = ...,
        render: None = ...,
        lookup: StatusLookup | None = ...,
        **options: Unpack[DispatchOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        send: Callable[[Message, str, C], SendResult],
        *,
        backend: Backend,
        parse: Callable[[Message], Message] | None = ...,
        validate: Callable[[Message], object] | None = ...,
        render: Callable[[Message], C],
        lookup: StatusLookup | None = ...,
        **options: Unpack[DispatchOptions],
    ) -> None: ...

    def __init__(
        self,
        send: Callable[..., SendResult],
        *,
        backend: Backend,
        parse: Callable[[Message], Message] | None = None,
        validate: Callable[[Message], object] | None = None,
        render: Callable[[Message], C] | None = None,
        lookup: StatusLookup | None = None,
        **options: Unpack[DispatchOptions],
    ) -> None:
        if isinstance(getattr(backend, "claims", None), AsyncClaimStore):
            raise ConfigurationError(f"the backend is the asynchronous {backend!r}; use AsyncDispatcher for it")
        for name, function in {"send": send, "parse": parse, "validate": validate, "render": render}.items():
            if is_async(function):
                raise ConfigurationError(f"{name} is the coroutine function {function!r}; use AsyncDispatcher for it")
        super().__init__(
            send, backend=backend, parse=parse, validate=validate, render=render, lookup=lookup, options=options
        )

    def handle(self, raw: Raw, *, id: str | None = None, lost: str | None = None) -> Disposition:
        """Carry one message as far as it goes now.

        Args:
            raw: what the application's queue delivered, whatever its state.
            id: the queue's or envelope's id for it; else the payload's "message_id" or "id", else a digest.
            lost: how the worker ended that had this copy before, where whoever delivers it again has seen that, such as
                "signal 11 (SIGSEGV)". It is evidence of the crash, kept in one line of up to 200 characters; whether there
                was one, the lease alone decides.

        Returns:
            What became of it. The application may ack its copy.

        Raises:
            InvalidMessageError: the id or the size is not allowed. Nothing was stored, and it will not get better: put the
                copy aside instead of delivering it again.
            FingerprintMismatchError: the id was used before for another payload; likewise.
            StoreError: a store failed. The application keeps its copy, and delivers it again.
            ConfigurationError: `lost` is no text.
            ProcessStoppingError: all was given back; likewise.
        """
        return run(self._handle(raw, id, lost))

    def keep(self, *, time_limit: Duration | None = None) -> None:
        """Keep the claims of what other threads handle at this moment; a worker calls it several times in each lease.

        Leases are renewed. What was left open, because a store failed or a caller was cancelled, is given back and counts as no try.

        Args:
            time_limit: a message that was claimed longer ago, > 0, has failed: its claim is settled so, unknown where the send had
                begun, and its handler is fenced out. None: there is no limit.
        """
        run(self._keep(time_limit))

    def hand_back(self) -> HandedBack:
        """Give back what other threads handle at this moment, because the process stops now; nothing is handled any more.

        Nothing of it counts as a try. What is in mid-send becomes unknown, to be verified; all else is free at once. A handler that
        comes back all the same is fenced out. What a store refuses is logged, and stays with its lease; it may be called again.

        Returns:
            The ids of the messages.
        """
        return run(self._open.hand_back())


class AsyncDispatcher(DispatchFlow, Generic[C]):
    """Handles messages for asynchronous callers, under asyncio or trio.

    As `Dispatcher`, with an asynchronous backend; `send` and `lookup` give awaitables, `parse`, `validate` and `render`
    may.
    """

    _is_async = True

    @overload
    def __init__(
        self: AsyncDispatcher[None],
        send: Callable[[Message, str], Awaitable[SendResult]],
        *,
        backend: AsyncBackend,
        parse: Callable[[Message], Message | Awaitable[Message]] | None = ...,
        validate: Callable[[Message], object] | None = ...,
        render: None = ...,
        lookup: AsyncStatusLookup | None = ...,
        **options: Unpack[DispatchOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        send: Callable[[Message, str, C], Awaitable[SendResult]],
        *,
        backend: AsyncBackend,
        parse: Callable[[Message], Message | Awaitable[Message]] | None = ...,
        validate: Callable[[Message], object] | None = ...,
        render: Callable[[Message], C | Awaitable[C]],
        lookup: AsyncStatusLookup | None = ...,
        **options: Unpack[DispatchOptions],
    ) -> None: ...

    def __init__(
        self,
        send: Callable[..., Awaitable[SendResult]],
        *,
        backend: AsyncBackend,
        parse: Callable[[Message], Message | Awaitable[Message]] | None = None,
        validate: Callable[[Message], object] | None = None,
        render: Callable[[Message], C | Awaitable[C]] | None = None,
        lookup: AsyncStatusLookup | None = None,
        **options: Unpack[DispatchOptions],
    ) -> None:
        if isinstance(getattr(backend, "claims", None), ClaimStore):
            raise ConfigurationError(f"the backend is the synchronous {backend!r}; use as_async(backend) for it")
        if hasattr(send, "pause_providers") and not is_async(send):
            raise ConfigurationError(f"send is the synchronous failover {send!r}; use AsyncFailover for it")
        super().__init__(
            send, backend=backend, parse=parse, validate=validate, render=render, lookup=lookup, options=options
        )

    async def handle(self, raw: Raw, *, id: str | None = None, lost: str | None = None) -> Disposition:
        """Carry one message as far as it goes now, as `Dispatcher.handle`."""
        return await arun(self._handle(raw, id, lost))

    async def keep(self, *, time_limit: Duration | None = None) -> None:
        """Keep the claims of what other tasks handle at this moment, as `Dispatcher.keep`."""
        await arun(self._keep(time_limit))

    async def hand_back(self) -> HandedBack:
        """Give back what other tasks handle at this moment, as `Dispatcher.hand_back`."""
        return await arun(self._open.hand_back())
