"""Opens backends by URL, and by the two forms that only tests have: `cluster://HOST:PORT` and `sentinel://HOST:PORT/NAME`."""

from __future__ import annotations

from urllib.parse import urlsplit

from retrykit.backends import open_backend
from retrykit.stores import Backend


def opened(url: str) -> Backend:
    """Open the backend of a URL, as each process of a test does for itself."""
    parts = urlsplit(url)
    if parts.scheme not in ("cluster", "sentinel"):
        return open_backend(url)
    import redis
    from redis.sentinel import Sentinel

    from retrykit.backends.redis import RedisBackend

    host, port = parts.hostname or "", parts.port or 0
    if parts.scheme == "cluster":
        return RedisBackend(redis.RedisCluster(host=host, port=port))
    return RedisBackend(Sentinel([(host, port)]).master_for(parts.path[1:]))
