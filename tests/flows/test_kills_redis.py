"""Real processes on Redis and Valkey servers, killed at random moments, while the servers have troubles of their own.

Nothing is lost and nothing is sent twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.capabilities import is_present, require

require("redis", "valkey-server", "loopback")

import redis

from tests.flows.workshop import Workshop
from tests.servers.valkey import Cluster, Server, free_port

pytestmark = pytest.mark.unmeasured

KINDS = ["valkey"]
if is_present("redis-server"):  # its wheel is not made for every Python
    KINDS.append(pytest.param("redis", marks=pytest.mark.soak(only=True)))


@pytest.fixture
def workshop(tmp_path: Path) -> Generator[Callable[[str], Workshop]]:
    """Open a workshop on the backend of a URL."""
    opened: list[Workshop] = []

    def make(url: str) -> Workshop:
        opened.append(Workshop(url, tmp_path, seed=3))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_workers_and_their_server_killed_at_random_every_message_ends_in_one_place(
    kind: str, workshop: Callable[[str], Workshop], scale: Callable[[int], int]
) -> None:
    """1,000 workers in a soak, and after each tenth the server, which keeps what it has answered."""
    server = Server(kind, "--appendonly", "yes", "--appendfsync", "always")

    def restart(number: int) -> None:
        if number % 10 == 4:
            server.kill()
            server.start()

    try:
        workshop(server.url).survive(max(5, scale(1000)), restart)
    finally:
        server.stop()


@pytest.mark.soak(only=True)
def test_workers_of_a_cluster_whose_slots_are_moved_every_message_ends_in_one_place(
    workshop: Callable[[str], Workshop], scale: Callable[[int], int]
) -> None:
    """Three masters: at each kill the keys of some store are on their way from one to the next."""
    cluster = Cluster()
    with redis.RedisCluster(host="127.0.0.1", port=cluster.ports[0]) as client:
        stores = ("claims", "retries", "deliveries", "dead_letters")
        slots = [client.keyslot(f"{{retrykit:{store}}}:") for store in stores]

    def move(number: int) -> None:
        slot = slots[number % len(slots)]
        target = cluster.begin_move(slot)
        while cluster.move_keys(slot, target, 50):
            time.sleep(0.01)
        cluster.end_move(slot, target)

    try:
        workshop(cluster.url).survive(max(5, scale(300)), move)
    finally:
        cluster.stop()


@pytest.mark.soak(only=True)
def test_workers_whose_primary_is_lost_go_on_with_its_replica(
    tmp_path: Path, workshop: Callable[[str], Workshop], scale: Callable[[int], int]
) -> None:
    """Sentinel makes the replica the primary; the old one comes back as its replica, so they take turns."""
    ports = [free_port(), free_port()]
    options = ("--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0")
    pair = [Server("valkey", "--port", str(port), *options) for port in ports]
    guard = free_port()
    file = tmp_path / "sentinel.conf"
    file.write_text(
        f"sentinel monitor mail 127.0.0.1 {ports[0]} 1\n"
        "sentinel down-after-milliseconds mail 3000\nsentinel failover-timeout mail 10000\n"
    )

    def state_of(server: Server) -> dict[str, str]:
        with redis.Redis(unix_socket_path=server.socket) as client:
            return client.info("replication")

    def is_primary(server: Server) -> bool:
        return state_of(server)["role"] == "master"

    def follows(server: Server) -> bool:
        return state_of(server).get("master_link_status") == "up"

    def follow(server: Server, primary: Server) -> None:
        with redis.Redis(unix_socket_path=server.socket) as client:
            client.replicaof("127.0.0.1", ports[pair.index(primary)])
        wait_for(lambda: follows(server))

    def wait_for(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def fail_over(number: int) -> None:
        if number % 5 != 2:
            return
        old, new = sorted(pair, key=is_primary, reverse=True)
        wait_for(lambda: follows(new))
        old.kill()
        wait_for(lambda: is_primary(new))
        old.start()
        follow(old, new)

    follow(pair[1], pair[0])
    sentinel = Server("valkey", "--port", str(guard), "--bind", "127.0.0.1", config=file)
    try:
        workshop(f"sentinel://127.0.0.1:{guard}/mail").survive(max(5, scale(300)), fail_over)
    finally:
        sentinel.stop()
        for server in pair:
            server.stop()
