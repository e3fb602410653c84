"""What dnspython raises."""

from __future__ import annotations

from tests.capabilities import require

require("dns", "loopback")

import contextlib
import socket
import threading

import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.resolver
import pytest

from tests.libraries.servers import classified, raised


@contextlib.contextmanager
def resolver(rcode):
    """Give a resolver that asks a server which answers so; None: not at all."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    query, peer = server.recvfrom(4_096)
                    if query == b"end":
                        return
                    if rcode is not None:
                        response = dns.message.make_response(dns.message.from_wire(query))
                        response.set_rcode(rcode)
                        server.sendto(response.to_wire(), peer)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        found = dns.resolver.Resolver(configure=False)
        found.nameservers, found.port = ["127.0.0.1"], server.getsockname()[1]
        found.timeout = found.lifetime = 0.2
        try:
            yield found
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"end", server.getsockname())
            thread.join(5)


@pytest.mark.parametrize(
    ("expected", "name", "rcode", "kind"),
    [
        ("dns_failure", "LifetimeTimeout", None, "A"),
        ("dns_failure", "NoNameservers", dns.rcode.SERVFAIL, "A"),
        ("dns_failure", "NoNameservers", dns.rcode.REFUSED, "MX"),
        ("dns_failure", "NoAnswer", dns.rcode.NOERROR, "A"),
        ("dns_failure", "NoAnswer", dns.rcode.NOERROR, "MX"),
        ("dns_failure", "NXDOMAIN", dns.rcode.NXDOMAIN, "A"),
        ("dns_failure", "NXDOMAIN", dns.rcode.NXDOMAIN, "TXT"),
        ("invalid_domain", "NXDOMAIN", dns.rcode.NXDOMAIN, "MX"),
    ],
)
def test_answer_of_the_name_server_tells(expected, name, rcode, kind):
    """Only a question for MX records is certainly about a recipient; a domain without them may still take mail."""
    with resolver(rcode) as ask:
        error = raised(lambda: ask.resolve("example.org.", kind))
    assert (name, (expected, "not_sent")) == (type(error).__name__, classified(error))


def test_wrong_name_is_a_wrong_payload():
    """Nobody was asked."""
    error = raised(lambda: dns.name.from_text("a..b"))
    assert ("invalid_payload", "not_sent") == classified(error)


def test_resolver_without_servers_is_a_matter_of_settings():
    """The file does not exist."""
    error = raised(lambda: dns.resolver.Resolver(filename="/nonexistent/resolv.conf"))
    assert ("provider_misconfigured", "not_sent") == classified(error)
