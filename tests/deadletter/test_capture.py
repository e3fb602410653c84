"""What a dispatcher writes down of a message that died: no rule that fails loses the letter or lets anything through."""

from __future__ import annotations

import hmac
import json
import logging
from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrykit import AsyncDispatcher, Dispatcher
from retrykit.backends import MemoryBackend
from retrykit.dead_letter import DeadLetter, Edit, PayloadState
from retrykit.deadletter import Capture, message_of, payload_of
from retrykit.deadletter.payload import seal
from retrykit.decision import Action, Attempt
from retrykit.errors import ConfigurationError, InvalidMessageError, PayloadUnavailableError
from retrykit.failure import ErrorClass, Failure, Outcome
from retrykit.stores import DeadLetterQuery, as_async
from retrykit.testing.strategies import json_values, letters
from tests.colours import both_loops
from tests.deadletter.ciphers import BrokenCipher, XorCipher

KEY = "a key that nobody else knows"
ADDRESS = "ada@example.org"
CARD = "4111111111111111"
BODY = b'{"id": "m-1", "card": {"number": "4111111111111111", "kind": "visa"}, "lines": [{"name": "Lovelace"}]}'
FAILED_AT = datetime(2026, 1, 31, 8, tzinfo=UTC)


def a_letter(payload=BODY, text="", recipient=ADDRESS, **fields):
    """A letter that says a text in all the places where a provider or an exception may say it."""
    failure = Failure(error_class=ErrorClass.MAILBOX_FULL, outcome=Outcome.REJECTED, error_message=text)
    attempt = Attempt(
        number=1,
        generation=1,
        failed_at=FAILED_AT,
        failure=failure,
        action=Action.DEAD_LETTER,
        reason=text,
        extra={"newer": [text]},
    )
    attributes = {"note": text, "campaign_id": "spring", **({} if recipient is None else {"recipient": recipient})}
    given = {"error_message": text, "decision": text, "attributes": attributes, "extra": {"newer": text}, **fields}
    letter = DeadLetter.from_dict(
        {
            "message_id": "m-1",
            "campaign_id": "spring",
            "provider": "ses",
            "recipient": recipient,
            "error_class": "mailbox_full",
            "error_code": "552",
            "attempt_count": 1,
            "last_failed_at": "2026-01-31T08:00:00Z",
            "original_payload": "",
        }
    )
    return attrs.evolve(letter, original_payload=payload, attempts=(attempt,), **given)


def said(letter):
    """Everything that a letter says but its ids, as one text in lower case, JSON within JSON read."""
    fields = {name: value for name, value in letter.to_dict().items() if name not in ("id", "message_id")}
    return (json.dumps(fields, ensure_ascii=False) + letter.original_payload.decode("utf-8", "replace")).casefold()


def test_capture_without_rules_keeps_all():
    """The letter is the same."""
    letter = a_letter(text="552 full")
    assert letter == Capture().apply(letter)


def test_masked_value_stands_nowhere_in_the_letter():
    """Not in the payload, the messages, the attempts, the attributes, or fields of a newer version."""
    letter = Capture(mask=["card.number", "lines.name"]).apply(a_letter(text=f"no {CARD} of LOVELACE"))
    assert b'{"id":"m-1","card":{"number":"***","kind":"visa"},"lines":[{"name":"***"}]}' == letter.original_payload
    assert PayloadState.MASKED is letter.payload_state
    assert ("no *** of ***", "no *** of ***", "no *** of ***") == (
        letter.error_message,
        letter.decision,
        letter.attributes["note"],
    )
    (attempt,) = letter.attempts
    assert ("no *** of ***", "no *** of ***") == (attempt.failure.error_message, attempt.reason)
    assert {"newer": ["no *** of ***"]} == attempt.extra
    assert CARD not in said(letter)
    assert "lovelace" not in said(letter)
    assert ("spring", "ses", "552", ADDRESS) == (
        letter.campaign_id,
        letter.provider,
        letter.error_code,
        letter.recipient,
    )
    with pytest.raises(PayloadUnavailableError):
        payload_of(letter)


def test_payload_in_which_nothing_is_masked_is_complete():
    """Byte for byte, so that it can be put back."""
    letter = a_letter(BODY)
    assert letter == Capture(mask=["card.expires", "**.password"]).apply(letter)
    assert BODY == payload_of(letter)


def test_recipient_that_is_masked_is_masked_in_the_letter_too():
    """The letter and its attributes took it from the payload."""
    letter = Capture(mask=["to"]).apply(a_letter(b'{"to": "Ada@Example.org", "tenant": "acme"}'))
    assert ("***", "***", "spring") == (
        letter.recipient,
        letter.attributes["recipient"],
        letter.attributes["campaign_id"],
    )


def test_value_that_is_masked_in_one_place_is_masked_wherever_the_payload_has_it():
    """Also as a number."""
    payload = (
        b'{"to": "ada@example.org", "reply_to": "ADA@example.org", "n": 123456, "m": 123456, "short": "x", "s": "x"}'
    )
    letter = Capture(mask=["to", "n", "short"]).apply(a_letter(payload))
    assert {"to": "***", "reply_to": "***", "n": "***", "m": "***", "short": "***", "s": "x"} == json.loads(
        letter.original_payload
    )


@pytest.mark.parametrize(
    "payload",
    [b"", b"not JSON 4111111111111111", b'{"card": {"number": "4111111111111111"', b"\xff", b"[" * 101 + b"]" * 101],
)
@pytest.mark.parametrize("rules", [{"mask": ["card.number"]}, {"hash_recipient": KEY}])
def test_payload_that_cannot_be_masked_is_withheld(payload, rules):
    """What is no JSON may hold anything."""
    letter = Capture(**rules).apply(a_letter(payload))
    assert (b"", PayloadState.WITHHELD) == (letter.original_payload, letter.payload_state)
    assert "its payload is withheld: it is not JSON, so that nothing in it can be masked" == letter.capture_note


def test_payload_with_a_key_twice_is_not_complete():
    """What is masked could stand under the first of them, which reading the payload hides."""
    letter = Capture(mask=["card.number"]).apply(a_letter(b'{"card": {"number": "4111111111111111"}, "card": null}'))
    assert (b'{"card":null}', PayloadState.MASKED) == (letter.original_payload, letter.payload_state)


def test_payload_larger_than_allowed_is_withheld():
    """The letter is kept and says so; a cipher changes nothing, and masked values are still looked for in its texts."""
    for rules in ({}, {"encrypt": XorCipher()}, {"mask": ["card.number"]}):
        letter = Capture(max_payload=len(BODY) - 1, **rules).apply(a_letter(text=CARD))
        assert (b"", PayloadState.WITHHELD, None) == (
            letter.original_payload,
            letter.payload_state,
            letter.payload_cipher,
        )
        assert f"its payload has {len(BODY)} bytes, and {len(BODY) - 1} are kept at the most" == letter.capture_note
        assert ("***" if "mask" in rules else CARD) == letter.error_message
    assert PayloadState.COMPLETE is Capture(max_payload=len(BODY)).apply(a_letter()).payload_state


def test_recipient_is_hashed_and_covered_wherever_the_address_stands():
    """In any case, also as URLs and bounces write it; the hash finds the letter."""
    capture = Capture(hash_recipient=KEY)
    payload = (
        b'{"recipient": "ada@example.org", "links": ["https://x.test/?to=Ada%40example.org"], "ada@example.org": 1}'
    )
    letter = capture.apply(
        a_letter(payload, "<ADA@example.org> bounces+ada=example.org@x.test", "Ada <ada@Example.org>")
    )
    hashed = capture.hashed("ADA@EXAMPLE.ORG")
    expected = hmac.new(KEY.encode(), b"ada@example.org", "sha256").hexdigest()
    assert f"hmac-sha256:{expected}" == hashed
    assert (hashed, hashed, "<***> bounces+***@x.test") == (
        letter.recipient,
        letter.attributes["recipient"],
        letter.error_message,
    )
    assert {"recipient": "***", "links": ["https://x.test/?to=***"], "***": 1} == json.loads(letter.original_payload)
    assert DeadLetterQuery(recipient=hashed).matches(letter)
    assert "ada@" not in said(letter)


def test_letter_whose_recipient_is_hashed_is_not_complete():
    """Put back, it would be sent to the hash: its attributes are part of the message."""
    letter = Capture(hash_recipient=KEY).apply(a_letter(b"{}"))
    assert (b"{}", PayloadState.MASKED) == (letter.original_payload, letter.payload_state)
    nobody = a_letter(b"{}", recipient=None)
    assert nobody == Capture(hash_recipient=KEY).apply(nobody)


def test_hash_is_another_for_another_key_and_the_same_for_a_hash():
    """A key given as text or as bytes is the same key."""
    capture = Capture(hash_recipient=KEY)
    assert capture.hashed(ADDRESS) == Capture(hash_recipient=KEY.encode()).hashed(f"Ada <{ADDRESS}>")
    assert capture.hashed(ADDRESS) != Capture(hash_recipient=KEY + "!").hashed(ADDRESS)
    assert capture.hashed(ADDRESS) == capture.hashed(capture.hashed(ADDRESS))
    with pytest.raises(ConfigurationError, match="recipients are not hashed: the capture has no hash_recipient"):
        Capture().hashed(ADDRESS)


def test_encrypted_letter_holds_the_whole_message_for_the_cipher_alone():
    """Masks and hashes cover the letter's texts, and take nothing from what can be put back."""
    cipher = XorCipher("key of 2026")
    capture = Capture(mask=["card.number"], hash_recipient=KEY, redact=lambda letter: letter, encrypt=cipher)
    whole = a_letter(text=f"{CARD} for {ADDRESS}")
    letter = capture.apply(whole)
    assert (PayloadState.ENCRYPTED, "key of 2026", "") == (
        letter.payload_state,
        letter.payload_cipher,
        letter.capture_note,
    )
    assert "*** for ***" == letter.error_message
    assert CARD not in said(letter)
    assert ADDRESS not in said(letter)
    assert message_of(whole) == message_of(letter, cipher)


def test_encrypted_letter_is_shown_masked():
    """As it would have been kept without the cipher; what was masked for good is shown as it is."""
    rules = {"mask": ["card.number"], "hash_recipient": KEY, "max_payload": 1000}
    capture, whole = Capture(encrypt=XorCipher(), **rules), a_letter(text=f"{CARD} for {ADDRESS}")
    plain = Capture(**rules).apply(whole)
    assert plain == capture.shown(capture.apply(whole)) == Capture(**rules).shown(plain) == capture.shown(whole)
    with pytest.raises(PayloadUnavailableError, match="no cipher was given"):
        Capture().shown(capture.apply(whole))


def test_repair_is_shown_masked_as_well():
    """Whether the letter is whole, encrypted or masked for good; what came in and its repair stay apart."""
    rules = {"mask": ["card.number"], "hash_recipient": KEY}
    capture = Capture(encrypt=XorCipher(), **rules)
    repaired = json.dumps({"card": {"number": CARD}, "n": 2}).encode()
    plain = Edit(payload=repaired, attributes={"recipient": ADDRESS}, by="ada", why="x", at=FAILED_AT)
    for letter in (a_letter(), Capture(**rules).apply(a_letter()), capture.apply(a_letter())):
        shown = capture.shown(attrs.evolve(letter, edit=plain))
        assert capture.shown(letter) == attrs.evolve(shown, edit=None)
        assert {"card": {"number": "***"}, "n": 2} == json.loads(shown.edit.payload)
        assert ADDRESS not in said(shown)
    sealed = attrs.evolve(
        plain,
        payload=seal(
            attrs.evolve(a_letter(), original_payload=repaired, attributes={"recipient": ADDRESS}), XorCipher()
        ),
        attributes={},
        cipher="xor",
    )
    shown = capture.shown(attrs.evolve(capture.apply(a_letter()), edit=sealed))
    assert ({"card": {"number": "***"}, "n": 2}, None) == (json.loads(shown.edit.payload), shown.edit.cipher)
    assert repaired == message_of(attrs.evolve(capture.apply(a_letter()), edit=sealed), XorCipher()).body


@pytest.mark.parametrize("gives", [None, "text"])
def test_cipher_that_fails_leaves_the_payload_out(gives, caplog):
    """The letter is kept, says so, and shows nothing; so does the log."""
    letter = Capture(encrypt=BrokenCipher(gives=gives)).apply(a_letter(text="552 full"))
    error = "RuntimeError" if gives is None else "TypeError"
    assert (b"", PayloadState.WITHHELD) == (letter.original_payload, letter.payload_state)
    assert f"its payload is withheld: the cipher 'broken' failed with {error}" == letter.capture_note
    assert "552 full" == letter.error_message
    assert CARD not in caplog.text
    assert (
        f"the dead letter 'm-1#1' is kept without all of its evidence: the cipher 'broken' failed with {error}"
        in caplog.text
    )


def test_redact_changes_the_letter_before_all_other_rules():
    """Masks and hashes hold for what it gives; a payload that it changed is not complete."""

    def redact(letter):
        return attrs.evolve(
            letter, error_message=f"{letter.error_message} {CARD}", original_payload=b'{"card": {"number": 5}}'
        )

    letter = Capture(redact=redact, mask=["card.number"]).apply(a_letter(text="552"))
    assert ("552 ***", b'{"card":{"number":"***"}}', PayloadState.MASKED) == (
        letter.error_message,
        letter.original_payload,
        letter.payload_state,
    )
    letter = Capture(redact=redact).apply(a_letter(text="552"))
    assert (b'{"card": {"number": 5}}', PayloadState.MASKED) == (letter.original_payload, letter.payload_state)


def test_redact_may_say_itself_what_became_of_payload_and_recipient():
    """It withholds, masks or replaces, and gives its reason."""

    def redact(letter):
        return attrs.evolve(letter, recipient="a person", payload_state=state, capture_note="as the contract says")

    for state, payload in ((PayloadState.WITHHELD, b""), (PayloadState.MASKED, BODY)):
        letter = Capture(redact=redact, hash_recipient=KEY).apply(a_letter())
        assert ("a person", payload, state, "as the contract says") == (
            letter.recipient,
            letter.original_payload,
            letter.payload_state,
            letter.capture_note,
        )
    assert Capture(redact=lambda letter: attrs.evolve(letter, recipient=None)).apply(a_letter()).recipient is None


def changes_the_message(letter):
    letter.attributes["recipient"] = "***"
    return letter


def test_redact_cannot_change_the_message_itself():
    """It has attributes of its own."""
    whole = a_letter()
    letter = Capture(redact=changes_the_message).apply(whole)
    assert (ADDRESS, "***", PayloadState.MASKED) == (
        whole.attributes["recipient"],
        letter.attributes["recipient"],
        letter.payload_state,
    )


def fails(letter):
    raise KeyError(letter.error_message)


@pytest.mark.parametrize(
    ("redact", "why"),
    [
        (fails, "redact failed with KeyError"),
        (lambda letter: None, "redact failed with AttributeError"),
        (lambda letter: attrs.evolve(letter, message_id="m-2"), "redact changed an id"),
        (lambda letter: attrs.evolve(letter, id="m-2"), "redact changed an id"),
        (lambda letter: attrs.evolve(letter, generation=2), "redact changed an id"),
        (lambda letter: attrs.evolve(letter, original_payload=None), "redact failed with AttributeError"),
        (lambda letter: attrs.evolve(letter, extra={"x": object()}), "redact failed with InvalidPayloadError"),
        (lambda letter: attrs.evolve(letter, campaign_id=b"x"), "redact failed with InvalidPayloadError"),
    ],
)
def test_redact_that_fails_leaves_out_all_texts_and_the_payload(redact, why, caplog):
    """What it should have hidden may stand in any of them; what letters are counted and found by is kept."""
    text = f"call {ADDRESS}, born 1815"
    letter = Capture(redact=redact).apply(a_letter(b'{"born": 1815}', text))
    assert f"its texts are left out: {why}; its payload is withheld" == letter.capture_note
    assert PayloadState.WITHHELD is letter.payload_state
    assert "1815" not in said(letter)
    assert ADDRESS not in said(letter)
    assert (None, "spring", "ses", "552", {"campaign_id": "spring"}) == (
        letter.recipient,
        letter.campaign_id,
        letter.provider,
        letter.error_code,
        letter.attributes,
    )
    (attempt,) = letter.attempts
    assert ("", {}, FAILED_AT, ErrorClass.MAILBOX_FULL) == (
        attempt.failure.error_message,
        attempt.extra,
        attempt.failed_at,
        attempt.failure.error_class,
    )
    assert letter == DeadLetter.from_json(letter.to_json())
    assert "1815" not in caplog.text
    assert why in caplog.text


def test_redact_that_fails_leaves_the_hash_and_the_encrypted_message():
    """They do not depend on it, so that the message can still be found and put back."""
    capture, whole = Capture(redact=fails, hash_recipient=KEY, encrypt=XorCipher()), a_letter(text="born 1815")
    letter = capture.apply(whole)
    assert (capture.hashed(ADDRESS), "", "its texts are left out: redact failed with KeyError") == (
        letter.recipient,
        letter.error_message,
        letter.capture_note,
    )
    assert message_of(whole) == message_of(letter, XorCipher())


def test_redact_that_is_told_to_stop_stops():
    """No letter is written; the next copy of the message does it."""

    def redact(letter):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Capture(redact=redact).apply(a_letter())


def test_letter_with_too_many_masked_values_to_look_for_has_no_texts():
    """The payload is masked all the same."""
    names = [f"name-{number}" for number in range(1001)]
    payload = json.dumps({"names": names, "kind": "news"}).encode()
    letter = Capture(mask=["names"]).apply(a_letter(payload, "no name-7"))
    assert ("", "its texts are left out: more than 1,000 values are masked") == (
        letter.error_message,
        letter.capture_note,
    )
    assert b'{"names":"***","kind":"news"}' == letter.original_payload
    payload = json.dumps({"names": names[1:]}).encode()
    assert "no ***" == Capture(mask=["names"]).apply(a_letter(payload, "no name-7")).error_message


SECRETS = st.text("abcdefgh123", min_size=3, max_size=9).map(lambda text: f"secret-{text}")
PLACES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3)


def put_at(value, path, secret):
    """JSON in which a secret stands at a path, in objects or in lists of objects, and other things stand beside it."""
    for key in reversed(path):
        secret = {"other": value, key: secret}
        if len(path) % 2:
            secret = [value, secret] if key != path[0] else secret
    return secret


@given(
    json_values,
    PLACES,
    SECRETS,
    st.sampled_from(["{}", "is {} known?", "<{}>", "{0}{0}"]),
    st.booleans(),
    st.booleans(),
)
def test_nothing_masked_is_found_in_the_letter(value, path, secret, words, swap, wild):
    """At any place, in any JSON, wherever else in the letter it is said, in any case."""
    payload = json.dumps(put_at(value, path, secret)).encode()
    mask = "**." + path[-1] if wild else ".".join(path)
    text = words.format(secret.swapcase() if swap else secret)
    for rules in ({}, {"hash_recipient": KEY}, {"max_payload": 10}, {"encrypt": XorCipher()}):
        letter = Capture(mask=[mask], **rules).apply(a_letter(payload, text))
        assert secret not in said(letter)
        assert letter == DeadLetter.from_json(letter.to_json())


@given(json_values, SECRETS.map(lambda text: f"{text}@example.org"), st.booleans())
def test_recipient_is_found_nowhere_in_the_letter(value, address, swap):
    """Whatever stands in the payload beside him."""
    shown = address.swapcase() if swap else address
    payload = json.dumps({"to": shown, "rest": [value, f"for {shown}"], shown: value}).encode()
    letter = Capture(hash_recipient=KEY).apply(a_letter(payload, f"no {shown}", address))
    assert address not in said(letter)


@given(letters, st.lists(st.sampled_from(["**.a", "b.*", "**"])), st.booleans(), st.booleans())
def test_capture_of_any_letter_gives_a_letter_that_can_be_kept(letter, masks, is_hashed, is_encrypted):
    """Whatever stands in it; the ids, the class and the state are never touched."""
    letter = attrs.evolve(letter, payload_state=PayloadState.COMPLETE, payload_cipher=None)
    capture = Capture(
        mask=masks, hash_recipient=KEY if is_hashed else None, encrypt=XorCipher() if is_encrypted else None
    )
    kept = capture.apply(letter)
    assert kept == DeadLetter.from_json(kept.to_json())
    assert (letter.id, letter.message_id, letter.error_class, letter.state) == (
        kept.id,
        kept.message_id,
        kept.error_class,
        kept.state,
    )
    if is_encrypted:
        assert letter.original_payload == payload_of(kept, XorCipher())
    elif kept.payload_state is PayloadState.COMPLETE:
        assert (letter.original_payload, letter.attributes) == (kept.original_payload, kept.attributes)


async def coroutine_function(letter):
    return letter


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({"mask": "card.number"}, r"mask is 'card.number'; allowed is a list of paths"),
        ({"mask": 5}, "mask is 5; allowed is a list of paths"),
        ({"mask": ["a..b"]}, r"the mask is 'a..b'; allowed are"),
        ({"hash_recipient": "short"}, "the key of hash_recipient is 5 bytes; allowed are 16 bytes and more"),
        ({"hash_recipient": 5}, "the key of hash_recipient is int; allowed are 16 bytes and more"),
        ({"redact": "card"}, "redact is 'card'; allowed is a function of a letter"),
        ({"redact": coroutine_function}, "which is called and never awaited"),
        ({"max_payload": 0}, "max_payload is 0; allowed are whole numbers >= 1"),
        ({"encrypt": "aes"}, r"encrypt is 'aes'; allowed is an object with a name, encrypt\(\) and decrypt\(\)"),
        ({"encrypt": XorCipher("")}, "the name of the cipher .* is ''; allowed is text"),
    ],
)
def test_capture_with_a_bad_rule_is_refused(rules, complaint):
    """Before the first message dies; a key is not quoted."""
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        Capture(**rules)
    assert "short" not in str(caught.value)


def test_capture_shows_no_key():
    """Neither in its own text nor in that of a dispatcher's options."""
    assert KEY not in repr(Capture(hash_recipient=KEY, encrypt=XorCipher()))


def refuse(message):
    raise InvalidMessageError(f"cannot read {CARD} of {ADDRESS}")


MESSAGE = {"id": "m-1", "recipient": ADDRESS, "card": {"number": CARD}}
CAPTURE = Capture(mask=["card.number"], hash_recipient=KEY)


def assert_captured(letter):
    assert ("cannot read *** of ***", CAPTURE.hashed(ADDRESS)) == (letter.error_message, letter.recipient)
    assert CARD not in said(letter)
    assert ADDRESS not in said(letter)


def test_dispatcher_writes_down_what_its_capture_leaves(caplog):
    """Also when it is handled again; nothing of the rest is logged."""
    caplog.set_level(logging.DEBUG)
    backend = MemoryBackend()
    dispatcher = Dispatcher(lambda message, key: None, validate=refuse, backend=backend, capture=CAPTURE)
    for _ in range(2):
        dispatcher.handle(MESSAGE)
    (letter,) = backend.dead_letters.search(DeadLetterQuery(recipient=CAPTURE.hashed(ADDRESS))).letters
    assert_captured(letter)
    assert CARD not in caplog.text


@both_loops
def test_async_dispatcher_writes_down_what_its_capture_leaves(runner):
    """The same letter."""
    backend = MemoryBackend()

    async def send(message, key):
        raise AssertionError("not reached")

    async def main():
        dispatcher = AsyncDispatcher(send, validate=refuse, backend=as_async(backend), capture=CAPTURE)
        await dispatcher.handle(MESSAGE)

    runner(main)
    (letter,) = backend.dead_letters.search().letters
    assert_captured(letter)


def test_dispatcher_with_a_capture_that_is_none_is_refused():
    """Before the first message."""
    with pytest.raises(ConfigurationError, match=r"capture is 'mask', which has no apply\(\)"):
        Dispatcher(lambda message, key: None, backend=MemoryBackend(), capture="mask")
