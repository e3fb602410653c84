"""The delivery log: each record as JSON, beside it what it is looked up by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from ... import codec
from ...message import MAX_ID_LENGTH
from ...stores.deliveries import Delivery, DeliveryStatus
from ...times import from_millis, to_millis
from ..damage import readable
from .records import Records
from .statements import Flow, Statement, text

__all__ = ["Deliveries"]


def _read(record: str) -> Delivery:
    return Delivery.from_dict(cast("Mapping[str, Any]", codec.decode(record)))


def _write(delivery: Delivery) -> Mapping[str, object]:
    return {
        "status": delivery.status.value,
        "provider": None if delivery.provider is None else text(delivery.provider),
        "provider_id": None if delivery.provider_id is None else text(delivery.provider_id),
        "updated_at": to_millis(delivery.updated_at),
        "is_settled": delivery.is_settled,
        "is_unexpected": delivery.is_unexpected,
        "record": codec.encode(delivery.to_dict()).decode("ascii"),
    }


_RECORDS: Final = Records("deliveries", "message_id", "record", read=_read, write=_write, what="the delivery of")

_SELECT: Final = "SELECT message_id, record FROM retrykit.deliveries WHERE"
_PAGE: Final = "AND message_id > %(after)s ORDER BY message_id LIMIT %(limit)s"


_NO_KEY: Final = re.compile("[\0\ud800-\udfff]")


def _before(after: str) -> str:
    """Return text behind which the same ids come as behind text that may be no id: one with a NUL or a lone surrogate."""
    found = _NO_KEY.search(after)
    if found is None:
        return after
    return after[: found.start()] + ("" if found[0] == "\0" else "\ud7ff" + "\U0010ffff" * MAX_ID_LENGTH)


class Deliveries:
    """The delivery log."""

    def _record(self, delivery: Delivery) -> Flow[Delivery]:
        new = delivery.after(None)
        if new is not None and (yield from _RECORDS.save(new.message_id, new, None)):  # mostly it is the first word
            return new
        while True:
            stored, version, _ = yield from _RECORDS.load(delivery.message_id)
            new = delivery.after(stored)
            if new is None:
                assert stored is not None
                return stored
            if (yield from _RECORDS.save(new.message_id, new, version)):
                return new

    def _get(self, message_id: str) -> Flow[Delivery | None]:
        delivery, _, _ = yield from _RECORDS.load(message_id)
        return delivery

    def _by_provider_id(self, provider: str, provider_id: str) -> Flow[Delivery | None]:
        rows = yield from self._select(
            "left(provider_id, 100) = left(%(provider_id)s, 100) AND provider_id = %(provider_id)s AND (provider = %(provider)s OR provider IS NULL) LIMIT 2",
            {"provider": text(provider), "provider_id": text(provider_id)},
        )
        return rows[0] if len(rows) == 1 else None

    def _with_status(self, status: DeliveryStatus, limit: int, after: str) -> Flow[Sequence[Delivery]]:
        return self._select(
            f"status = %(status)s {_PAGE}", {"status": status.value, "after": _before(after), "limit": limit}
        )

    def _unexpected(self, limit: int, after: str) -> Flow[Sequence[Delivery]]:
        return self._select(f"is_unexpected {_PAGE}", {"after": _before(after), "limit": limit})

    def _updated_between(
        self, start: datetime, end: datetime, status: DeliveryStatus, limit: int, after: Delivery | None
    ) -> Flow[Sequence[Delivery]]:
        begin = (to_millis(start), "") if after is None else (to_millis(after.updated_at), text(after.message_id))
        return self._select(
            "status = %(status)s AND updated_at >= %(start)s::bigint AND updated_at < %(end)s::bigint "
            "AND (updated_at, message_id) > (%(at)s::bigint, %(id)s) ORDER BY updated_at, message_id LIMIT %(limit)s",
            {
                "status": status.value,
                "start": max(begin[0], to_millis(start)),
                "end": to_millis(end),
                "at": begin[0],
                "id": begin[1],
                "limit": limit,
            },
        )

    def _select(self, where: str, values: Mapping[str, object]) -> Flow[Sequence[Delivery]]:
        rows = yield Statement(f"{_SELECT} {where}", values)
        return [_RECORDS.read(message_id, [record]) for message_id, record in rows]

    def _bookmark(self, source: str) -> Flow[datetime | None]:
        rows = yield Statement("SELECT at FROM retrykit.bookmarks WHERE source = %(source)s", {"source": text(source)})
        return from_millis(rows[0][0]) if rows else None

    def _move_bookmark(self, source: str, to: datetime) -> Flow[datetime]:
        ((at,),) = yield Statement(
            "INSERT INTO retrykit.bookmarks AS known (source, at) VALUES (%(source)s, %(at)s) "
            "ON CONFLICT (source) DO UPDATE SET at = greatest(known.at, excluded.at) RETURNING at",
            {"source": text(source), "at": to_millis(to)},
        )
        return from_millis(at)

    def _counts(self) -> Flow[Mapping[DeliveryStatus, int]]:
        rows = yield Statement("SELECT status, count(*) FROM retrykit.deliveries GROUP BY status")
        with readable("the delivery log"):
            return {DeliveryStatus(status): total for status, total in rows}

    def _purge(self, before: datetime, limit: int) -> Flow[int]:
        rows = yield Statement(
            "DELETE FROM retrykit.deliveries WHERE message_id = ANY (ARRAY(SELECT message_id FROM retrykit.deliveries "
            "WHERE is_settled AND updated_at < %(before)s::bigint ORDER BY updated_at, message_id LIMIT %(limit)s "
            "FOR UPDATE SKIP LOCKED)) RETURNING true",
            {"before": to_millis(before), "limit": limit},
        )
        return len(rows)
