"""What smtplib and aiosmtplib raise, talking to a server that fails at one command."""

from __future__ import annotations

from tests.capabilities import require

require("aiosmtplib", "aiosmtpd", "trustme", "loopback")

import asyncio
import smtplib
import ssl
from contextlib import contextmanager

import aiosmtplib
import pytest
from aiosmtpd.controller import UnthreadedController

from retrykit.classification.exceptions import refusals_of
from tests.libraries import servers
from tests.libraries.servers import PATIENCE, TIMEOUT, classified, closed_port, raised, serving, talk

ONE, TWO = "ada@example.org", "grace@example.org"
TALK = {
    b"EHLO": b"250-here\r\n250 AUTH PLAIN\r\n",
    b"HELO": b"250 here\r\n",
    b"AUTH": b"235 welcome\r\n",
    b"MAIL": b"250 fine\r\n",
    b"RCPT": b"250 fine\r\n",
    b"DATA": b"354 go on\r\n",
    b"RSET": b"250 fine\r\n",
    b".": b"250 taken\r\n",
}


def send(port, recipients=(ONE,), login=False, host="127.0.0.1", wait=PATIENCE):
    with smtplib.SMTP(host, port, "here", timeout=wait) as client:
        if login:
            client.login("user", "word")
        return client.sendmail("app@example.com", recipients, "Subject: x\r\n\r\nx\r\n")


def send_async(port, recipients=(ONE,), login=False, host="127.0.0.1", wait=PATIENCE):
    async def main():
        client = aiosmtplib.SMTP(hostname=host, port=port, local_hostname="here", timeout=wait, start_tls=False)
        try:
            await client.connect()
            if login:
                await client.login("user", "word")
            return (await client.sendmail("app@example.com", list(recipients), "Subject: x\r\n\r\nx\r\n"))[0]
        finally:
            client.close()

    return asyncio.run(main())


BOTH = pytest.mark.parametrize("deliver", [send, send_async])


def server(**changes):
    """Serve mail, with other answers to some commands; None closes the connection instead."""
    greeting = changes.pop("greeting", b"220 here\r\n")
    answers = TALK | {{"DOT": b"."}.get(name, name.encode()): text for name, text in changes.items()}
    return serving(talk(greeting, {command: text for command, text in answers.items() if text is not None}))


@BOTH
@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("provider_unavailable", {"greeting": b"421 closing down\r\n"}),
        ("reputation_blocked", {"greeting": b"554 no\r\n"}),
        ("provider_misconfigured", {"MAIL": b"550 5.1.8 sender domain unknown\r\n"}),
        ("mailbox_full", {"RCPT": b"452 4.2.2 mailbox full\r\n"}),
        ("invalid_recipient", {"RCPT": b"550-5.1.1 user\r\n550 5.1.1 unknown\r\n"}),
        ("content_rejected", {"DATA": b"554 5.7.1 this is spam\r\n"}),
        ("content_rejected", {"DOT": b"554 5.7.1 this is spam\r\n"}),
        ("provider_unavailable", {"DOT": b"451 4.3.0 try again later\r\n"}),
    ],
)
def test_refusal_is_read_as_the_reply_it_is(deliver, expected, changes):
    """Whatever exception carries it: SMTPConnectResponseError is a ConnectionError too."""
    with server(**changes) as port:
        error = raised(lambda: deliver(port))
    assert (expected, "rejected") == classified(error)


@BOTH
def test_refused_login_is_a_matter_of_settings(deliver):
    """The phase is that of the login."""
    with server(AUTH=b"535 5.7.8 wrong\r\n") as port:
        error = raised(lambda: deliver(port, login=True))
    assert ("provider_misconfigured", "rejected") == classified(error)


@BOTH
def test_login_that_the_server_does_not_offer_is_a_matter_of_settings(deliver):
    """Nothing was tried."""
    with server(EHLO=b"250 here\r\n") as port:
        assert ("provider_misconfigured", "not_sent") == classified(raised(lambda: deliver(port, login=True)))
    with server(EHLO=b"250-here\r\n250 AUTH STRANGE\r\n") as port:
        assert ("provider_misconfigured", "not_sent") == classified(raised(lambda: deliver(port, login=True)))


@BOTH
@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA", "DOT"])
def test_lost_connection_leaves_the_outcome_open(deliver, command):
    """The libraries do not say how far they came; a sender that knows writes it on the exception."""
    with server(**{command: None}) as port:
        error = raised(lambda: deliver(port))
    assert ("connection_error", "unknown") == classified(error)
    error.smtp_phase = "rcpt"
    assert ("connection_error", "not_sent") == classified(error)


@BOTH
def test_silence_leaves_the_outcome_open(deliver):
    """Nobody answers the command DATA."""
    with server(DATA=b"") as port:
        error = raised(lambda: deliver(port, wait=TIMEOUT))
    assert ("network_timeout", "unknown") == classified(error)


@BOTH
def test_refused_connection_has_sent_nothing(deliver):
    """The libraries raise what the system says, or their own."""
    assert ("connection_error", "not_sent") == classified(raised(lambda: deliver(closed_port())))


def test_connection_that_is_not_answered_in_time_has_sent_nothing():
    """Only aiosmtplib knows that it was connecting."""
    with servers.unreachable_port() as port:
        assert ("network_timeout", "not_sent") == classified(raised(lambda: send_async(port, wait=TIMEOUT)))
        assert ("network_timeout", "unknown") == classified(raised(lambda: send(port, wait=TIMEOUT)))


@BOTH
@pytest.mark.usefixtures("no_names")
def test_unknown_name_is_a_dns_failure(deliver):
    """A gaierror, or what it was wrapped in."""
    assert ("dns_failure", "not_sent") == classified(raised(lambda: deliver(25, host="nowhere.invalid")))


@BOTH
def test_answer_that_is_no_smtp_is_not_guessed(deliver):
    """A web server answered."""
    with serving(servers.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        error = raised(lambda: deliver(port, wait=TIMEOUT))
    assert "rejected" != classified(error)[1]
    assert classified(error)[0] in ("unknown", "network_timeout", "connection_error")


@BOTH
def test_command_without_a_connection_has_sent_nothing(deliver):
    """Both libraries say so in words."""

    async def unconnected():
        await aiosmtplib.SMTP(hostname="127.0.0.1").noop()

    errors = {
        send: lambda: smtplib.SMTP().noop(),
        send_async: lambda: asyncio.run(unconnected()),
    }
    assert ("connection_error", "not_sent") == classified(raised(errors[deliver]))


def test_untrusted_certificate_is_a_matter_of_settings(tls_port):
    """Before a word of SMTP was spoken."""

    async def main():
        await aiosmtplib.SMTP(hostname="127.0.0.1", port=tls_port, use_tls=True, timeout=PATIENCE).connect()

    def encrypted():
        smtplib.SMTP_SSL("127.0.0.1", tls_port, context=ssl.create_default_context())

    assert ("provider_misconfigured", "not_sent") == classified(raised(encrypted))
    assert ("provider_misconfigured", "not_sent") == classified(raised(lambda: asyncio.run(main())))


class Refusing:
    """Answers one recipient with 550 and the other with 452."""

    def __init__(self, *refused):
        self.refused = refused

    async def handle_RCPT(self, _server, _session, envelope, address, _options):  # noqa: N802
        if address in self.refused:
            return "550 5.1.1 user unknown" if address == ONE else "452 4.2.2 mailbox full"
        envelope.rcpt_tos.append(address)
        return "250 fine"

    async def handle_DATA(self, _server, _session, _envelope):  # noqa: N802
        return "250 taken"


@contextmanager
def real_server(handler):
    """Run aiosmtpd on a free port, in a loop of its own."""
    import threading

    loop = asyncio.new_event_loop()
    controller = UnthreadedController(handler, "127.0.0.1", closed_port(), loop=loop)
    controller.begin()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield controller.port
    finally:
        asyncio.run_coroutine_threadsafe(controller.finalize(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


@BOTH
def test_every_recipient_refused_gives_a_reply_for_each(deliver):
    """The exception as a whole is that which may heal."""
    with real_server(Refusing(ONE, TWO)) as port:
        error = raised(lambda: deliver(port, (ONE, TWO)))
    assert "SMTPRecipientsRefused" == type(error).__name__
    assert ("mailbox_full", "rejected") == classified(error)
    assert {ONE: (550, "5.1.1", "rcpt"), TWO: (452, "4.2.2", "rcpt")} == {
        name: (reply.code, reply.enhanced_code, reply.phase) for name, reply in refusals_of(error).items()
    }


@BOTH
def test_some_recipients_refused_is_what_sendmail_returns(deliver):
    """Nothing is raised: the others have the mail."""
    with real_server(Refusing(TWO)) as port:
        refused = refusals_of(deliver(port, (ONE, TWO)))
    assert [(TWO, 452)] == [(name, reply.code) for name, reply in refused.items()]


def test_single_refused_recipient_of_aiosmtplib_is_read():
    """What its method `rcpt` raises."""
    error = aiosmtplib.SMTPRecipientRefused(550, "5.1.1 user unknown", ONE)
    assert ("invalid_recipient", "rejected") == classified(error)
    assert [ONE] == list(refusals_of(error))
