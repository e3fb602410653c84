"""Breakers and pauses: what is switched off, by whom and why, and the switches."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from ..checks import check_note
from ..errors import ConfigurationError
from ..times import to_iso
from .asking import Ask
from .site import Site

__all__ = ["circuits", "pause", "reset", "resume"]

_KINDS: Final = ("campaign", "provider", "tenant")


async def circuits(site: Site, ask: Ask) -> Response:
    """List breakers and pauses."""
    store = site.backend.circuits
    known = sorted(await store.circuits(), key=lambda each: (not each.is_open, each.name))
    kind = ask.choice("kind", _KINDS, "campaign")
    return site.page(
        ask,
        "circuits.html",
        circuits=known,
        pauses=await store.pauses(),
        kinds=_KINDS,
        kind=kind,
        name=ask.text("name", most=255),
    )


async def pause(site: Site, ask: Ask) -> Response:
    """Let the messages of a campaign, a provider or a tenant wait."""
    key = f"{ask.choice('kind', _KINDS, '')}:{ask.text('name', most=255)}"
    reason = check_note(ask.text("reason"), "reason", least=1)
    until = ask.end("length")
    await site.backend.circuits.pause(key, reason=reason, by=ask.session.operator.name, until=until)
    await site.note(ask, "paused", key, reason, "" if until is None else f"until {to_iso(until)}")
    return site.to(ask, "/circuits")


async def resume(site: Site, ask: Ask) -> Response:
    """Let what was paused go on."""
    key, why = ask.needed("key"), check_note(ask.text("why"), "why")
    if await site.backend.circuits.resume(key):
        await site.note(ask, "resumed", key, why)
    return site.to(ask, "/circuits")


async def reset(site: Site, ask: Ask) -> Response:
    """Close a breaker by hand."""
    name, why = ask.needed("name"), check_note(ask.text("why"), "why")
    if not why:
        raise ConfigurationError("why is missing; say why the breaker may close: it stands in the audit log")
    if await site.backend.circuits.reset(name):
        await site.note(ask, "breaker closed", name, why)
    return site.to(ask, "/circuits")
