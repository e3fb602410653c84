"""What is well and what is not with a Redis or Valkey server."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..doctor import Finding, Level, clock, latency
from . import connect
from .drivers import meaning

__all__ = ["diagnose"]

_OLDEST: Final = (6, 2)
_MUCH: Final = 0.005
"""Seconds of a round trip."""


def diagnose(url: str) -> Sequence[Finding]:
    """Look at a server: its version, role, memory and eviction, persistence, clock and latency."""
    client, _ = connect(url, "redis")
    try:
        return _looked_at(client)
    except Exception as error:
        said = meaning(error)
        if said is None:
            raise
        return [Finding("connection", Level.PROBLEM, str(said), "check the URL, the server, and who may connect to it")]
    finally:
        client.close()


def _looked_at(client: Any) -> list[Finding]:
    begun = time.time()
    seconds, micros = client.time()
    apart = seconds + micros / 1e6 - (begun + time.time()) / 2
    info: Mapping[str, Any] = client.info("all")
    return [
        Finding("connection", Level.OK, "the server answers"),
        _version(info),
        _role(info),
        _eviction(info),
        *_memory(info),
        *_persistence(info),
        clock(apart),
        latency(client.ping, _MUCH),
    ]


def _version(info: Mapping[str, Any]) -> Finding:
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get("valkey_version", info.get("redis_version", "0")))
    speaks = tuple(int(part) for part in str(info.get("redis_version", "0")).split(".")[:2])
    if speaks < _OLDEST:
        return Finding("version", Level.PROBLEM, f"the server is {name} {version}", "use Redis 6.2 or newer, or Valkey")
    return Finding("version", Level.OK, f"the server is {name} {version}")


def _role(info: Mapping[str, Any]) -> Finding:
    if info.get("role") != "master":
        return Finding(
            "role",
            Level.PROBLEM,
            "the server is a replica, and takes no writes",
            "connect to the primary, or by Sentinel",
        )
    replicas = int(info.get("connected_slaves", 0))
    mode = "a node of a cluster" if info.get("cluster_enabled") else "a primary"
    return Finding("role", Level.OK, f"the server is {mode} with {replicas} replicas")


def _eviction(info: Mapping[str, Any]) -> Finding:
    policy = str(info.get("maxmemory_policy", "unknown"))
    if policy == "noeviction":
        return Finding("eviction", Level.OK, "nothing is evicted when memory is full: writes are refused then")
    if policy.startswith("volatile-"):
        return Finding(
            "eviction",
            Level.WARNING,
            f"the policy is {policy}; retrykit's keys never expire, and are spared",
            "set noeviction",
        )
    return Finding(
        "eviction",
        Level.PROBLEM,
        f"the policy is {policy}: when memory is full the server deletes messages and claims",
        "set maxmemory-policy noeviction, or give retrykit a server of its own",
    )


def _memory(info: Mapping[str, Any]) -> list[Finding]:
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if not most:
        return [Finding("memory", Level.OK, f"{_mib(used)} are used; the server sets no limit")]
    said = f"{_mib(used)} of {_mib(most)} are used"
    if used < 0.8 * most:
        return [Finding("memory", Level.OK, said)]
    return [Finding("memory", Level.WARNING, said, "raise maxmemory, or purge what is settled")]


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:,.1f} MiB"


def _persistence(info: Mapping[str, Any]) -> list[Finding]:
    found: list[Finding] = []
    if info.get("loading"):
        found.append(Finding("persistence", Level.PROBLEM, "the server still loads its data", "wait"))
    if not info.get("aof_enabled"):
        found.append(
            Finding(
                "persistence",
                Level.WARNING,
                "there is no append-only file: what was written since the last snapshot is lost with the server",
                "set appendonly yes",
            )
        )
    elif info.get("aof_last_write_status") == "ok":
        found.append(Finding("persistence", Level.OK, "writes go to the append-only file"))
    if info.get("rdb_last_bgsave_status", "ok") != "ok" or info.get("aof_last_write_status", "ok") != "ok":
        found.append(
            Finding(
                "persistence", Level.PROBLEM, "the server could not write to its disk", "look at its log and its disk"
            )
        )
    return found
