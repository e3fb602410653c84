"""Webhooks of providers: only what is genuine, ours and of now gives events."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import hmac
import io
import json
import sys
import threading
import urllib.request
from datetime import UTC, datetime, timedelta
from email.message import Message
from urllib.response import addinfourl

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrykit.classification import EventKind
from retrykit.delivery.webhook_signatures import Certificates, SeenTokens, fetch_certificate
from retrykit.delivery.webhooks import MailgunWebhook, PostmarkWebhook, SendGridWebhook, SesWebhook, Webhook
from retrykit.errors import ConfigurationError, InvalidPayloadError, MissingExtraError, WebhookRefusedError
from retrykit.testing import manual_clock
from tests.capabilities import require

require("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, padding, rsa
from cryptography.x509.oid import NameOID

NOW = datetime(2026, 1, 1, tzinfo=UTC)  # where a manual clock begins
SECONDS = int(NOW.timestamp())
TOPIC = "arn:aws:sns:eu-west-1:123456789012:mail"
CERTIFICATE_URL = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0a1b.pem"
SECRET = "s3cr3t-of-ours"
WHO = "ada@example.org"
SIGNATURE, TIMESTAMP = "X-Twilio-Email-Event-Webhook-Signature", "X-Twilio-Email-Event-Webhook-Timestamp"


@pytest.fixture(autouse=True)
def clock():
    with manual_clock() as made:
        yield made


@functools.cache
def rsa_key(size=2048):
    return rsa.generate_private_key(65537, size)


@functools.cache
def ec_key(number=0, curve=ec.SECP256R1):
    return ec.generate_private_key(curve())


@functools.cache
def certificate(key=None, begin=timedelta(days=-1), end=timedelta(days=300)):
    """A self-signed certificate of SNS in PEM."""
    key = key or rsa_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
    made = made.not_valid_before(NOW + begin).not_valid_after(NOW + end)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def public(key, *, pem=False):
    """A public key as SendGrid shows it, or as PEM."""
    encoding = serialization.Encoding.PEM if pem else serialization.Encoding.DER
    made = key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    return made.decode() if pem else base64.b64encode(made).decode()


def envelope(message=None, *, kind="Notification", version="2", key=None, at=NOW, sign=True, **changes):
    """What SNS sends, signed; `changes` before it is signed."""
    made = {
        "Type": kind,
        "MessageId": "sns-1",
        "TopicArn": TOPIC,
        "Message": json.dumps(message or {"eventType": "Delivery", "delivery": {"recipients": [WHO]}}),
        "Timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "SignatureVersion": version,
        "SigningCertURL": CERTIFICATE_URL,
    }
    if kind != "Notification":
        made |= {"Token": "t-1", "SubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription"}
    made |= changes
    if sign:
        names = sorted(
            {"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type", "SubscribeURL", "Token"} & made.keys()
        )
        signed = "".join(f"{name}\n{made[name]}\n" for name in names).encode("utf-8", "surrogatepass")
        algorithm = hashes.SHA1() if version == "1" else hashes.SHA256()
        made["Signature"] = base64.b64encode((key or rsa_key()).sign(signed, padding.PKCS1v15(), algorithm)).decode()
    return made


def ses(fetch=lambda _url: certificate(), **settings):
    return SesWebhook(**{"topics": [TOPIC], "fetch": fetch, **settings})


def sendgrid(**settings):
    return SendGridWebhook(**{"keys": public(ec_key()), **settings})


def sendgrid_request(events, *, key=None, at=SECONDS):
    body = json.dumps(events).encode()
    signature = (key or ec_key()).sign(str(at).encode() + body, ec.ECDSA(hashes.SHA256()))
    return {SIGNATURE: base64.b64encode(signature).decode(), TIMESTAMP: str(at)}, body


def mailgun(**settings):
    return MailgunWebhook(**{"keys": SECRET, **settings})


def mailgun_body(*, at=SECONDS, token="t" * 50, key=SECRET, event=None, as_number=False, field="signature"):
    signature = hmac.new(key.encode(), f"{at}{token}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
    signed = {"timestamp": at if as_number else str(at), "token": token, field: signature}
    return {"signature": signed, "event-data": event or {"event": "delivered", "id": "e-1", "recipient": WHO}}


def basic(user, password):
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def postmark(**settings):
    return PostmarkWebhook(**(settings or {"user": "postmark", "password": SECRET}))


def refusal(webhook, headers, body):
    """Return why a request is refused; neither its body nor a secret is told."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(WebhookRefusedError) as caught:
        webhook.events(headers, body)
    told = f"{caught.value!r} {caught.value} {webhook!r}"
    assert WHO not in told and SECRET not in told
    assert caught.value.provider == webhook.provider
    return caught.value.reason


def kinds(webhook, headers, body):
    body = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    return [event.kind.value for event in webhook.events(headers, body)]


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [{}, {"Subject": "Amazon SES"}, {"Subject": ""}])
def test_ses_notification_that_sns_signed_gives_its_event(version, subject):
    """Both versions of the signature, with and without a subject."""
    (event,) = ses().events({}, json.dumps(envelope(version=version, **subject)).encode())
    assert (event.provider, event.kind, event.recipient, event.event_id) == ("ses", EventKind.DELIVERED, WHO, "sns-1")


def test_ses_null_subject_is_an_absent_one():
    """Some writers of JSON send null for what is absent."""
    assert kinds(ses(), {}, {**envelope(), "Subject": None}) == ["delivered"]


def test_ses_own_id_of_an_event_stays_and_an_array_is_read_whole():
    """The id of SNS only stands in where the event has none."""
    bounce = {"eventType": "Bounce", "bounce": {"feedbackId": "f-1", "bounceType": "Permanent"}}
    assert [event.event_id for event in ses().events({}, json.dumps(envelope(bounce)).encode())] == ["f-1"]
    assert kinds(ses(), {}, envelope([bounce, bounce])) == ["bounced", "bounced"]


def test_ses_unknown_event_is_kept_as_other():
    """What is genuine and not known is no error; so is text for people, and text that is no proper Unicode."""
    assert kinds(ses(), {}, envelope({"eventType": "SomethingNew"})) == ["other"]
    assert kinds(ses(), {}, envelope(Message="Successfully validated SNS topic")) == ["other"]
    assert kinds(ses(), {}, envelope(Message="\ud800")) == ["other"]


@pytest.mark.parametrize("kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation"])
def test_ses_confirmation_comes_out_and_is_not_followed(kind):
    """Nothing but the certificate is fetched."""
    fetched = []
    webhook = ses(lambda url: fetched.append(url) or certificate(), provider="SES-eu")
    (event,) = webhook.events({}, json.dumps(envelope(kind=kind)).encode())
    assert (event.provider, event.kind, event.codes, event.event_id) == ("ses-eu", EventKind.OTHER, (kind,), "sns-1")
    assert event.at == NOW and event.raw["SubscribeURL"].startswith("https://sns.")
    assert fetched == [CERTIFICATE_URL]


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        *(("Notification", field) for field in "Message MessageId Subject Timestamp TopicArn Type".split()),
        *(
            ("SubscriptionConfirmation", field)
            for field in "Message MessageId SubscribeURL Timestamp Token TopicArn Type".split()
        ),
    ],
)
def test_ses_field_that_was_changed_after_signing_is_refused(kind, field):
    """Every signed field, in place and taken away."""
    genuine = envelope(kind=kind, **({"Subject": "hello"} if kind == "Notification" else {}))
    other = {
        "Timestamp": "2026-01-01T00:00:01.000Z",
        "TopicArn": TOPIC + "2",
        "Type": "UnsubscribeConfirmation" if kind != "Notification" else "SubscriptionConfirmation",
    }.get(field, genuine[field] + "x")
    webhook = ses(topics=[TOPIC, TOPIC + "2"])
    assert refusal(webhook, {}, {**genuine, field: other}) in ("signature", "missing")
    del genuine[field]
    assert refusal(webhook, {}, genuine) in ("signature", "missing")


def test_ses_signature_does_not_fit_fields_that_are_cut_elsewhere():
    """The signed text is the same; what would be read from it is not."""
    genuine = envelope(Message="a\nMessageId\nb")
    cut = {**genuine, "Message": "a", "MessageId": f"b\nMessageId\n{genuine['MessageId']}"}
    assert kinds(ses(), {}, genuine) == ["other"]
    assert refusal(ses(), {}, cut) == "signature"


def test_ses_refuses_another_key_topic_version_or_signature():
    """Anybody can let SNS sign something of their own."""
    assert refusal(ses(), {}, envelope(key=rsa.generate_private_key(65537, 2048))) == "signature"
    assert refusal(ses(), {}, envelope(TopicArn="arn:aws:sns:eu-west-1:666:mail")) == "topic"
    assert refusal(ses(), {}, {**envelope(), "SignatureVersion": "3"}) == "signature"
    assert refusal(ses(), {}, {**envelope(), "SignatureVersion": "1"}) == "signature"
    assert refusal(ses(), {}, {**envelope(), "Signature": "nø base64"}) == "signature"
    assert refusal(ses(), {}, {**envelope(), "Signature": ""}) == "signature"


@pytest.mark.parametrize(
    "field", ["Signature", "SignatureVersion", "SigningCertURL", "TopicArn", "Timestamp", "MessageId", "Type"]
)
@pytest.mark.parametrize("value", [None, 7, ["x"], {}])
def test_ses_field_that_is_no_text_is_missing(field, value):
    """No type in any place leads to another error."""
    assert refusal(ses(), {}, {**envelope(), field: value}) == "missing"


def test_ses_message_is_refused_when_it_is_old_ahead_or_timeless(clock):
    """An hour back, five minutes ahead; exactly there it still passes."""
    assert kinds(ses(), {}, envelope(at=NOW + timedelta(minutes=5))) == ["delivered"]
    assert refusal(ses(), {}, envelope(at=NOW + timedelta(seconds=301))) == "in_the_future"
    assert refusal(ses(), {}, envelope(Timestamp="soon")) == "missing"
    assert refusal(ses(), {}, envelope(Timestamp="2026-01-01T00:00:00")) == "missing"
    body = envelope()
    clock.advance("1h")
    assert kinds(ses(), {}, body) == ["delivered"]
    clock.advance(1)
    assert refusal(ses(), {}, body) == "too_old"
    assert kinds(ses(tolerance="2h"), {}, body) == ["delivered"]


@pytest.mark.parametrize(
    "url",
    [
        "http://sns.us-east-1.amazonaws.com/a.pem",
        "HTTPS://sns.us-east-1.amazonaws.com/a.pem",
        "https://sns.us-east-1.amazonaws.com.evil.example/a.pem",
        "https://sns.us-east-1.amazonaws.com@evil.example/a.pem",
        "https://evil.example@sns.us-east-1.amazonaws.com/a.pem",
        "https://sns.us-east-1.amazonaws.com:8443/a.pem",
        "https://evil.example/sns.us-east-1.amazonaws.com/a.pem",
        "https://evil-sns.us-east-1.amazonaws.com/a.pem",
        "https://s3.us-east-1.amazonaws.com/a.pem",
        "https://sns.amazonaws.com/a.pem",
        "https://sns.evil.us-east-1.amazonaws.com/a.pem",
        "https://sns.us-east-1.amazonaws.org/a.pem",
        "https://sns.us-east-1.amazonaws.com.cn.evil/a.pem",
        "https://snsxus-east-1.amazonaws.com/a.pem",
        "https://sns.us-east-1xamazonaws.com/a.pem",
        "https://sns.us-east-1.amazonawsxcom/a.pem",
        "https://sns.us-east-1.amazonaws.comxcn/a.pem",
        "https://sns.us-east-1.amazonaws.com/axpem",
        "https://sns.us-east-1.amazonaws.com/../a.pem",
        "https://sns.us-east-1.amazonaws.com/x/../a.pem",
        "https://sns.us-east-1.amazonaws.com/%2e%2e/a.pem",
        "https://sns.us-east-1.amazonaws.com/a.pem?x=1",
        "https://sns.us-east-1.amazonaws.com/?Action=x&y=.pem",
        "https://sns.us-east-1.amazonaws.com/a.pem#.pem",
        "https://sns.us-east-1.amazonaws.com/a.txt",
        "https://sns.us-east-1.amazonaws.com\\@evil.example/a.pem",
        "https://sns.us-east-1.amazonaws.com/a.pem\n",
        "https://sns.us-east-1.amazonaws.com/\ta.pem",
        "https://sns.us-e\u0430st-1.amazonaws.com/a.pem",
        "https://sns.us-east-\u0661.amazonaws.com/a.pem",
        "https://sns\u3002us-east-1.amazonaws.com/a.pem",
        "file:///etc/a.pem",
        "//sns.us-east-1.amazonaws.com/a.pem",
        "",
    ],
)
def test_ses_certificate_from_elsewhere_is_not_even_fetched(url):
    """Whoever chooses the certificate chooses who is genuine."""
    fetched = []
    assert refusal(ses(fetched.append), {}, envelope(SigningCertURL=url)) == "certificate"
    assert fetched == []


@pytest.mark.parametrize(
    "region", ["us-east-1.amazonaws.com", "us-gov-west-1.amazonaws.com", "cn-north-1.amazonaws.com.cn"]
)
def test_ses_certificate_of_each_region_is_allowed(region):
    """Also those of China and of governments."""
    assert kinds(ses(), {}, envelope(SigningCertURL=f"https://sns.{region}/SimpleNotificationService-0.pem")) == [
        "delivered"
    ]


def test_ses_certificate_must_be_valid_now(clock):
    """A kept one too: it is looked at with each request."""
    assert refusal(ses(lambda _: certificate(begin=timedelta(seconds=1))), {}, envelope()) == "certificate"
    webhook = ses(lambda _: certificate(end=timedelta(hours=1)))
    assert kinds(webhook, {}, envelope()) == ["delivered"]
    clock.advance("61m")
    assert refusal(webhook, {}, envelope(at=clock.now())) == "certificate"


def absent(_url):
    raise LookupError("no")


@pytest.mark.parametrize(
    "fetch",
    [
        absent,
        lambda _: b"",
        lambda _: b"<html>",
        lambda _: certificate()[:300],
        lambda _: certificate(rsa_key(1024)),
        lambda _: certificate(ec_key()),
        lambda _: certificate(dsa_key()),
    ],
)
def test_ses_certificate_that_is_none_is_refused(fetch):
    """Nothing there, something else there, or a key that is too short or of another kind."""
    assert refusal(ses(fetch), {}, envelope()) == "certificate"


@functools.cache
def dsa_key():
    return dsa.generate_private_key(1024)


def test_ses_certificate_with_an_unreadable_key_is_refused():
    """Its wrapping is sound, its key is not: the curve is unknown to everybody."""
    pem = certificate(ec_key())
    der = base64.b64decode("".join(pem.decode().splitlines()[1:-1]))
    curve = bytes.fromhex("2a8648ce3d030107")
    assert curve in der
    broken = base64.encodebytes(der.replace(curve, curve[:-1] + b"\x7f")).decode()
    pem = f"-----BEGIN CERTIFICATE-----\n{broken}-----END CERTIFICATE-----\n".encode()
    assert refusal(ses(lambda _: pem), {}, envelope()) == "certificate"


def test_ses_certificate_is_fetched_once_and_only_genuine_ones_are_kept():
    """Forged requests can neither fill the memory nor push a genuine certificate out."""
    fetched = []
    webhook = ses(lambda url: fetched.append(url) or certificate())
    for _ in range(3):
        assert kinds(webhook, {}, envelope()) == ["delivered"]
    for number in range(40):
        forged = {**envelope(), "SigningCertURL": CERTIFICATE_URL.replace("0a1b", str(number)), "MessageId": "forged"}
        assert refusal(webhook, {}, forged) == "signature"
    assert kinds(webhook, {}, envelope()) == ["delivered"]
    assert fetched.count(CERTIFICATE_URL) == 1


def test_certificates_beyond_the_limit_push_out_the_one_used_least():
    """The memory is bounded."""
    fetched = []
    kept = Certificates(lambda url: fetched.append(url) or certificate(), limit=2)
    signature = rsa_key().sign(b"x", padding.PKCS1v15(), hashes.SHA256())
    for url in ["a", "b", "a", "c", "a", "b"]:
        kept.check("ses", url, signature, b"x", is_sha1=False)
    assert fetched == ["a", "b", "c", "b"]


def test_ses_fetch_that_fails_is_nobodys_refusal():
    """The error goes through: SNS is to send again."""

    def fetch(_url):
        raise TimeoutError("no answer")

    with pytest.raises(TimeoutError, match="no answer"):
        ses(fetch).events({}, json.dumps(envelope()).encode())


class Host(urllib.request.HTTPSHandler):
    """Stands for the host of a certificate: the rest of urllib is real."""

    answer = None
    asked = ()

    def https_open(self, req):
        Host.asked.append((req.full_url, req.timeout))
        if isinstance(self.answer, Exception):
            raise self.answer
        status, headers, body = self.answer
        message = Message()
        for name, value in headers.items():
            message[name] = value
        reply = addinfourl(io.BytesIO(body) if isinstance(body, bytes) else body, message, req.full_url, status)
        reply.msg = "said"
        return reply


@pytest.fixture
def host(monkeypatch):
    monkeypatch.setattr(urllib.request, "HTTPSHandler", Host)
    monkeypatch.setattr(Host, "asked", [])
    return lambda answer: monkeypatch.setattr(Host, "answer", answer)


def test_fetching_a_certificate_takes_what_the_host_says(host):
    """Five seconds at most, and not a byte too many."""
    host((200, {}, b"x" * 65_536))
    assert fetch_certificate(CERTIFICATE_URL) == b"x" * 65_536
    assert Host.asked == [(CERTIFICATE_URL, 5.0)]
    host((200, {}, certificate()))
    assert kinds(SesWebhook(topics=[TOPIC]), {}, envelope()) == ["delivered"]


def test_fetching_a_certificate_reads_no_endless_answer(host):
    """A little more than is allowed shows that it is too much."""

    class Endless(io.RawIOBase):
        def read(self, size=-1):
            assert 0 < size <= 65_537
            return b"x" * size

    host((200, {}, Endless()))
    with pytest.raises(LookupError, match="more than 65,536 bytes"):
        fetch_certificate(CERTIFICATE_URL)


@pytest.mark.parametrize(
    "answer",
    [
        (302, {"Location": "https://evil.example/a.pem"}, b""),
        (301, {"Location": "https://sns.eu-west-1.amazonaws.com/b.pem"}, b""),
        (403, {}, b""),
        (404, {}, b""),
        (200, {}, b"x" * 65_537),
    ],
)
def test_fetching_a_certificate_that_is_not_there_is_a_lookup_error(host, answer):
    """No redirect is followed, and nothing endless is read."""
    host(answer)
    with pytest.raises(LookupError, match="instead of a certificate"):
        fetch_certificate(CERTIFICATE_URL)
    assert len(Host.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [(503, {}, b""), (429, {}, b""), (408, {}, b""), TimeoutError(), urllib.request.http.client.BadStatusLine("x")],
)
def test_fetching_a_certificate_from_a_host_that_cannot_now_is_an_os_error(host, answer):
    """It may go well the next time."""
    host(answer)
    with pytest.raises(OSError):
        fetch_certificate(CERTIFICATE_URL)


def test_sendgrid_batch_that_is_signed_gives_its_events():
    """In their order, unknown ones too; an empty batch gives none."""
    events = [{"event": "delivered", "email": WHO}, {"event": "new"}, {"event": "bounce"}]
    assert kinds(sendgrid(), *sendgrid_request(events)) == ["delivered", "other", "bounced"]
    assert kinds(sendgrid(), *sendgrid_request([])) == []
    assert sendgrid(provider="primary").events(*sendgrid_request(events))[0].provider == "primary"


def test_headers_come_in_any_case_as_mapping_or_pairs_of_text_or_bytes():
    """Every framework has its own form."""
    headers, body = sendgrid_request([{"event": "open"}])
    pairs = list(headers.items())
    forms = [
        {name.lower(): value for name, value in pairs},
        {name.upper(): value for name, value in pairs},
        pairs,
        iter(pairs),
        [(name.encode().lower(), value.encode()) for name, value in pairs],
        {name.encode(): value.encode() for name, value in pairs},
    ]
    assert [kinds(sendgrid(), form, body) for form in forms] == [["engaged"]] * 6
    assert kinds(sendgrid(), headers, bytearray(body)) == kinds(sendgrid(), headers, memoryview(body)) == ["engaged"]
    assert refusal(sendgrid(), [*pairs, pairs[0]], body) == "signature"


def test_sendgrid_key_is_read_as_shown_as_pem_and_several_at_once():
    """While one key replaces another, both count."""
    old, new = ec_key(1), ec_key(2)
    request = sendgrid_request([{"event": "open"}], key=new)
    for keys in [
        public(new),
        public(new, pem=True),
        public(new, pem=True).encode(),
        [public(old), public(new)],
        f" {public(new)}\n",
    ]:
        assert kinds(sendgrid(keys=keys), *request) == ["engaged"]
    assert refusal(sendgrid(keys=public(old)), *request) == "signature"


@pytest.mark.parametrize(
    "keys",
    [[], "", "not a key", "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----", b"\xff", public(rsa_key()), public(ec_key(0, ec.SECP384R1)), [public(ec_key()), ""]],
)  # fmt: skip
def test_sendgrid_key_that_is_none_is_refused_at_once(keys):
    """And not quoted."""
    with pytest.raises(ConfigurationError, match="keys") as caught:
        sendgrid(keys=keys)
    assert public(rsa_key())[:40] not in str(caught.value)


def test_sendgrid_request_that_was_changed_is_refused():
    """The body to its last byte, the timestamp, the signature."""
    headers, body = sendgrid_request([{"event": "open", "email": WHO}])
    assert refusal(sendgrid(), headers, body + b" ") == "signature"
    assert refusal(sendgrid(), headers, body[:-1]) == "signature"
    assert refusal(sendgrid(), headers, b"") == "signature"
    assert refusal(sendgrid(), {**headers, TIMESTAMP: str(SECONDS + 1)}, body) == "signature"
    assert refusal(sendgrid(), {**headers, TIMESTAMP: "now"}, body) == "signature"
    assert refusal(sendgrid(), {**headers, TIMESTAMP: "\u0661\u0662"}, body) == "signature"
    assert refusal(sendgrid(), {**headers, SIGNATURE: "%%%"}, body) == "signature"
    assert refusal(sendgrid(), {**headers, SIGNATURE: base64.b64encode(b"x" * 70).decode()}, body) == "signature"
    other, _ = sendgrid_request([{"event": "bounce"}])
    assert refusal(sendgrid(), other, body) == "signature"


@pytest.mark.parametrize("name", [SIGNATURE, TIMESTAMP])
def test_sendgrid_header_that_is_absent_is_missing(name):
    """Also where it is there and empty."""
    headers, body = sendgrid_request([{"event": "open"}])
    assert refusal(sendgrid(), {**headers, name: ""}, body) == "missing"
    del headers[name]
    assert refusal(sendgrid(), headers, body) == "missing"


def test_sendgrid_request_is_refused_when_it_is_old_or_ahead(clock):
    """A day of sending again and an hour; five minutes ahead."""
    request = sendgrid_request([{"event": "open"}])
    clock.advance("25h")
    assert kinds(sendgrid(), *request) == ["engaged"]
    clock.advance(1)
    assert refusal(sendgrid(), *request) == "too_old"
    assert (
        refusal(sendgrid(tolerance=timedelta(minutes=5)), *sendgrid_request([], at=SECONDS + 25 * 3600 - 300))
        == "too_old"
    )
    assert refusal(sendgrid(), *sendgrid_request([], at=SECONDS + 26 * 3600)) == "in_the_future"
    assert refusal(sendgrid(), *sendgrid_request([], at=999_999_999_999)) == "in_the_future"
    assert refusal(sendgrid(), *sendgrid_request([], at=0)) == "too_old"


def test_sendgrid_signed_body_that_holds_no_events_is_an_invalid_payload():
    """Genuine, and still not what is expected."""
    for document in ["hello", 5, None, [1]]:
        with pytest.raises(InvalidPayloadError):
            sendgrid().events(*sendgrid_request(document))


def test_mailgun_request_that_is_signed_gives_its_event():
    """The timestamp as text or number; by any of several keys; by the key of the parent account."""
    assert kinds(mailgun(), {}, mailgun_body()) == ["delivered"]
    assert kinds(mailgun(), {}, mailgun_body(as_number=True)) == ["delivered"]
    assert kinds(mailgun(keys=["old", SECRET.encode()]), {}, mailgun_body()) == ["delivered"]
    assert kinds(mailgun(), {}, mailgun_body(field="parent-signature")) == ["delivered"]
    assert kinds(mailgun(), {}, mailgun_body(event={"event": "new"})) == ["other"]


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("signature", {"signature": "0" * 64}),
        ("signature", {"signature": "s\u00fcss\ud800"}),
        ("signature", {"token": "u" * 50}),
        ("signature", {"token": "\ud800"}),
        ("signature", {"timestamp": str(SECONDS + 1)}),
        ("signature", {"timestamp": "soon"}),
        ("signature", {"timestamp": True}),
        ("missing", {"timestamp": 1.5}),
        ("missing", {"timestamp": None}),
        ("missing", {"token": None}),
        ("missing", {"token": ""}),
        ("missing", {"token": 5}),
        ("missing", {"signature": None}),
        ("missing", {"signature": ["0"]}),
    ],
)
def test_mailgun_signature_that_was_changed_is_refused(expected, changes):
    """Each part of it."""
    body = mailgun_body()
    body["signature"] |= changes
    assert refusal(mailgun(), {}, body) == expected


def test_mailgun_request_by_another_key_or_without_signature_is_refused():
    """Also what has no signature at all, or a token that is too long to remember."""
    assert refusal(mailgun(), {}, mailgun_body(key="other")) == "signature"
    assert refusal(mailgun(), {}, mailgun_body(token="t" * 201)) == "signature"
    for signature in [None, "x", [], {}]:
        assert refusal(mailgun(), {}, {**mailgun_body(), "signature": signature}) == "missing"


def test_mailgun_request_is_refused_when_it_is_old_or_ahead(clock):
    """Eight hours of sending again and one; five minutes ahead."""
    assert refusal(mailgun(), {}, mailgun_body(at=SECONDS + 301)) == "in_the_future"
    clock.advance("9h")
    assert kinds(mailgun(), {}, mailgun_body()) == ["delivered"]
    clock.advance(1)
    assert refusal(mailgun(), {}, mailgun_body()) == "too_old"


def test_mailgun_token_passes_once_whatever_the_event(clock):
    """The event is not signed: a token that was overheard could carry any."""
    webhook = mailgun()
    assert kinds(webhook, {}, mailgun_body()) == ["delivered"]
    assert refusal(webhook, {}, mailgun_body()) == "replay"
    assert refusal(webhook, {}, mailgun_body(event={"event": "complained", "recipient": WHO})) == "replay"
    assert kinds(webhook, {}, mailgun_body(token="another")) == ["delivered"]
    clock.advance("9h")
    assert refusal(webhook, {}, mailgun_body()) == "replay"
    clock.advance(1)
    assert refusal(webhook, {}, mailgun_body()) == "too_old"


def test_mailgun_request_that_gave_no_event_or_is_forgotten_may_come_again():
    """What could not be applied is sent again by Mailgun, with the same token."""
    webhook = mailgun()
    with pytest.raises(InvalidPayloadError):
        webhook.events({}, json.dumps({**mailgun_body(), "Type": "x", "Message": "[1]"}).encode())
    body = json.dumps(mailgun_body()).encode()
    assert kinds(webhook, {}, body) == ["delivered"]
    webhook.forget(body)
    assert kinds(webhook, {}, body) == ["delivered"]
    assert refusal(webhook, {}, body) == "replay"


def test_mailgun_shared_memory_is_asked_about_genuine_tokens_only():
    """Forged requests do not fill it."""
    known = set()

    def seen(token):
        return token in known or bool(known.add(token))

    body = mailgun_body(token="shared")
    first, second = (mailgun(seen=seen, unsee=known.discard) for _ in range(2))
    assert refusal(first, {}, mailgun_body(key="other")) == "signature"
    assert known == set()
    assert kinds(first, {}, body) == ["delivered"]
    assert refusal(second, {}, body) == "replay"
    second.forget(json.dumps(body).encode())
    assert kinds(second, {}, body) == ["delivered"]
    assert refusal(first, {}, body) == "replay"


def test_mailgun_token_passes_once_among_threads():
    """Of many that come at the same moment, one."""
    webhook, body, passed = mailgun(), json.dumps(mailgun_body()).encode(), []
    barrier = threading.Barrier(8)

    def call():
        with manual_clock():
            barrier.wait()
            with contextlib.suppress(WebhookRefusedError):
                passed.append(webhook.events({}, body))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 1


def test_seen_tokens_are_bounded_in_time_and_number(clock):
    """The oldest go first."""
    seen = SeenTokens(60, 2)
    assert [seen(token) for token in "aabba"] == [False, True, False, True, True]
    assert [seen(token) for token in "cba"] == [False, True, False]
    clock.advance(60)
    assert [seen(token) for token in "ac"] == [False, False]
    seen.forget("nobody")


def test_postmark_user_and_password_open_the_door():
    """The scheme in any case; everything else to the letter."""
    body = {"RecordType": "Delivery", "Recipient": WHO}
    assert kinds(postmark(), {"authorization": basic("postmark", SECRET)}, body) == ["delivered"]
    assert kinds(postmark(), {"Authorization": basic("postmark", SECRET).replace("Basic", "bAsIc  ")}, body) == [
        "delivered"
    ]
    assert kinds(
        postmark(user="\u00fc", password="p:\u00fc"), {"Authorization": basic("\u00fc", "p:\u00fc")}, body
    ) == ["delivered"]
    wrong = [
        basic("postmark", "other"), basic("other", SECRET), basic("postmark", SECRET + "x"), basic("", ""), "Basic", "Basic %%", "",
        basic("postmark", SECRET).replace("Basic", "Bearer"), SECRET, "Basic " + SECRET, basic("postmark", SECRET) + ", Basic x",
    ]  # fmt: skip
    assert {refusal(postmark(), {"Authorization": value}, body) for value in wrong} == {"signature"}
    assert refusal(postmark(), {}, body) == "missing"


def test_postmark_secret_in_a_header_opens_the_door():
    """The header's name in any case, its value to the letter."""
    body = {"RecordType": "SomethingNew"}
    webhook = postmark(header="X-Our-Secret", secret=SECRET)
    assert kinds(webhook, {"x-our-secret": SECRET}, body) == ["other"]
    assert refusal(webhook, {"X-Our-Secret": SECRET.upper()}, body) == "signature"
    assert refusal(webhook, {"X-Our-Secret": "\ud800"}, body) == "signature"
    assert refusal(webhook, {"Authorization": basic("postmark", SECRET)}, body) == "missing"


@pytest.mark.parametrize(
    "settings",
    [
        {"user": "a"},
        {"password": "b"},
        {"user": "a", "password": ""},
        {"user": "a:b", "password": "c"},
        {"header": "x", "secret": ""},
        {"header": "", "secret": "x"},
        {"header": "x"},
        {"user": "a", "password": "b", "header": "x", "secret": "y"},
        {"provider": "postmark"},
    ],
)
def test_postmark_without_one_whole_secret_is_refused(settings):
    """An empty password would let everybody in."""
    with pytest.raises(ConfigurationError, match="user and password, or header and secret"):
        PostmarkWebhook(**settings)


EVERY = [ses, sendgrid, mailgun, postmark]


@pytest.mark.parametrize("make", EVERY)
def test_body_over_the_limit_is_refused_before_it_is_looked_at(make):
    """The default is a mebibyte."""
    own = {"user": "u", "password": "p"} if make is postmark else {}
    assert make(**own).max_body == 1 << 20
    with pytest.raises(WebhookRefusedError, match=r"has 1,048,577 bytes, allowed are at most 1,048,576") as caught:
        make(**own).events({}, b"{" * ((1 << 20) + 1))
    assert caught.value.reason == "too_large"
    with pytest.raises(WebhookRefusedError):
        make(**own, max_body=3).events({}, memoryview(b"1234"))


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("settings", [{"max_body": 0}, {"max_body": True}, {"provider": ""}, {"provider": None}])
def test_setting_that_is_not_allowed_is_refused(make, settings):
    """When it is given, not when the first request comes."""
    own = {"user": "u", "password": "p"} if make is postmark else {}
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        make(**own, **settings)


@pytest.mark.parametrize("make", [ses, sendgrid, mailgun])
@pytest.mark.parametrize("tolerance", [0, -1, "soon", float("inf")])
def test_tolerance_that_is_not_allowed_is_refused(make, tolerance):
    """It has to be a time."""
    with pytest.raises(ConfigurationError, match="tolerance"):
        make(tolerance=tolerance)


@pytest.mark.parametrize("topics", [[], TOPIC, ["mail"], [None]])
def test_topics_must_be_a_list_of_arns(topics):
    """Text is a list of letters by accident."""
    with pytest.raises(ConfigurationError, match="allowed is a list of at least one TopicArn"):
        ses(topics=topics)


@pytest.mark.parametrize(
    "settings", [{"keys": ""}, {"keys": []}, {"keys": ["a", b""]}, {"unsee": print}, {"seen": bool}]
)
def test_mailgun_without_a_key_or_with_half_a_memory_is_refused(settings):
    """An empty key would let everybody in; what is remembered for good is lost when it could not be applied."""
    with pytest.raises(ConfigurationError, match="give"):
        mailgun(**settings)


async def asynchronous(_):
    """No function that a webhook could call."""


@pytest.mark.parametrize(
    ("make", "settings", "said"),
    [
        (ses, {"topics": None}, "topics is None"),
        (ses, {"topics": 5}, "topics is 5"),
        (ses, {"topics": b"arn:x"}, "topics is b'arn:x'"),
        (ses, {"topics": [[TOPIC]]}, "topics is"),
        (ses, {"fetch": "https://x"}, "fetch is 'https://x'; allowed is a function"),
        (ses, {"fetch": asynchronous}, "fetch is .*; allowed is a function that is not asynchronous"),
        (sendgrid, {"keys": 5}, "keys is of type int"),
        (sendgrid, {"keys": None}, "keys is of type NoneType"),
        (sendgrid, {"keys": [5]}, "one of keys is of type int"),
        (mailgun, {"keys": None}, "keys is of type NoneType"),
        (mailgun, {"keys": 5}, "keys is of type int"),
        (mailgun, {"keys": ["a", 5]}, "one of keys is of type int"),
        (mailgun, {"seen": 5, "unsee": print}, "seen is 5; allowed is a function"),
        (mailgun, {"seen": bool, "unsee": 5}, "unsee is 5; allowed is a function"),
        (mailgun, {"seen": asynchronous, "unsee": print}, "seen is .*; allowed is a function that is not asynchronous"),
        (mailgun, {"seen": bool, "unsee": asynchronous}, "unsee is .*; allowed is a function that is not"),
        (postmark, {"header": "bad header", "secret": "s"}, "header is 'bad header'; allowed is the name of a header"),
        (postmark, {"header": "X-Tök", "secret": "s"}, "header is 'X-Tök'"),
        (postmark, {"header": 5, "secret": "s"}, "header is of type int"),
        (postmark, {"header": "X-S", "secret": 5}, "secret is of type int"),
        (postmark, {"user": 5, "password": "p"}, "user is of type int"),
        (postmark, {"user": "u", "password": b"p"}, "password is of type bytes"),
    ],
)
def test_part_of_a_wrong_type_is_refused_by_name_when_it_is_given(make, settings, said):
    """Not when the first request comes; a secret is not quoted."""
    with pytest.raises(ConfigurationError, match=said):
        make(**settings)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1", b"5", b'"x"', b"a=1", b"\xff{}", b"[" * 50_000, b'{"a": ' + b"9" * 5_000 + b"}", "{}", None],
)
def test_body_that_is_no_json_is_an_invalid_payload(body):
    """Where the signature is in the body, or shows nothing of it."""
    for webhook, headers in [(ses(), {}), (mailgun(), {}), (postmark(), {"authorization": basic("postmark", SECRET)})]:
        with pytest.raises(InvalidPayloadError, match=repr(webhook.provider)):
            webhook.events(headers, body)


@pytest.mark.parametrize("webhook", [ses(), mailgun()])
def test_array_where_one_signed_object_is_expected_is_an_invalid_payload(webhook):
    """SNS and Mailgun send one object."""
    with pytest.raises(InvalidPayloadError, match="is an array; allowed is a JSON object"):
        webhook.events({}, b"[]")


def test_byte_order_mark_changes_nothing():
    """Who verifies and who reads see the same text."""
    assert kinds(ses(), {}, b"\xef\xbb\xbf" + json.dumps(envelope()).encode()) == ["delivered"]
    with pytest.raises(InvalidPayloadError):
        ses().events({}, json.dumps(envelope()).encode("utf-16"))


@pytest.mark.parametrize("make", EVERY)
def test_webhook_is_immutable_and_tells_no_secret(make):
    """It may be shared, printed and logged."""
    webhook = make()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        webhook.provider = "other"
    with pytest.raises((attrs.exceptions.FrozenInstanceError, AttributeError)):
        webhook.anything = 1
    assert SECRET not in repr(webhook) and repr(webhook).startswith(type(webhook).__name__)
    assert webhook.forget(json.dumps(mailgun_body()).encode()) is None
    assert len({webhook, make()}) == 2


@pytest.mark.parametrize("make", [lambda: SesWebhook(topics=[TOPIC]), lambda: SendGridWebhook(keys="x")])
def test_webhook_that_needs_cryptography_says_so_at_once(make, monkeypatch):
    """The others do without."""
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtraError, match=r"retrykit\[webhooks\]"):
        make()
    assert kinds(mailgun(), {}, mailgun_body()) == ["delivered"]


def test_webhook_of_another_provider_is_a_short_subclass():
    """It sees headers by their names in lower case, and only bodies that are small enough."""

    class Own(Webhook):
        provider = "own"
        max_body = 10

        def _events(self, headers, body):
            assert headers == {"x-a": "1, 2"}
            return []

    assert Own().events([("X-A", "1"), (b"x-a ", b"2")], b"{}") == []
    with pytest.raises(WebhookRefusedError):
        Own().events({}, b"12345678901")
    assert Own().forget(b"") is None


HOOKS = [ses(), sendgrid(), mailgun(), postmark(), postmark(header="x-a", secret="s")]
NAMES = st.sampled_from([SIGNATURE, TIMESTAMP, "Authorization", "X-A"]) | st.text(max_size=10)
VALUES = st.text(max_size=30) | st.sampled_from(["Basic eDp5", str(SECONDS), base64.b64encode(b"0" * 70).decode()])
FIELDS = st.sampled_from(
    "Type MessageId TopicArn Message Timestamp SignatureVersion SigningCertURL Signature Subject signature token timestamp event-data".split()
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    | st.sampled_from(["Notification", TOPIC, "2026-01-01T00:00:00Z", "1", CERTIFICATE_URL, "eDp5", SECONDS]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=9),
    max_leaves=25,
)  # fmt: skip


@pytest.mark.unmeasured
@settings(max_examples=300)
@given(
    st.sampled_from(HOOKS),
    st.lists(st.tuples(NAMES, VALUES) | st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=4),
    st.binary(max_size=60) | DOCUMENTS.map(lambda document: json.dumps(document).encode()),
)
def test_any_request_gives_events_or_one_of_two_errors(webhook, headers, body):
    """Whatever arrives at a public address."""
    with manual_clock(), contextlib.suppress(InvalidPayloadError, WebhookRefusedError):
        webhook.events(headers, body)


@settings(max_examples=150)
@given(
    st.sampled_from(
        ["Type", "MessageId", "TopicArn", "Message", "Timestamp", "SignatureVersion", "SigningCertURL", "Signature"]
    ),
    DOCUMENTS,
)
def test_any_value_in_one_field_of_sns_is_refused_or_no_change(field, value):
    """One field of a genuine envelope at a time."""
    genuine = envelope()
    with manual_clock(), contextlib.suppress(WebhookRefusedError):
        HOOKS[0].events({}, json.dumps({**genuine, field: value}).encode())
        assert genuine[field] == value
