"""What the codes, words and statuses of APIs mean."""

from __future__ import annotations

import collections
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retrykit.classification import ErrorClassifier, EventKind, HttpReply, ProviderEvent, SmtpReply
from retrykit.classification.http_rules import API_WORDS, LAST_RULES
from retrykit.classification.provider_codes import CERTAIN_CODES, VAGUE_CODES
from retrykit.failure import ErrorClass, Outcome

CLASSIFIER = ErrorClassifier()


def failure_of(status, body="", provider=None, **fields):
    if not isinstance(body, (str, bytes)):
        body = json.dumps(body)
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    return CLASSIFIER.classify(HttpReply(status, headers, body), provider=provider)


def class_of(status, body="", provider=None, **fields):
    return str(failure_of(status, body, provider, **fields).error_class)


@pytest.mark.parametrize(
    ("expected", "status"),
    [
        ("provider_throttled", 429),
        ("provider_throttled", 420),
        ("provider_throttled", 509),
        ("provider_unavailable", 408),
        ("provider_unavailable", 409),
        ("provider_unavailable", 425),
        ("provider_unavailable", 500),
        ("provider_unavailable", 502),
        ("provider_unavailable", 503),
        ("provider_unavailable", 522),
        ("provider_unavailable", 599),
        ("provider_misconfigured", 401),
        ("provider_misconfigured", 402),
        ("provider_misconfigured", 403),
        ("provider_misconfigured", 407),
        ("provider_misconfigured", 508),
        ("provider_misconfigured", 301),
        ("policy_violation", 451),
        ("invalid_payload", 400),
        ("invalid_payload", 404),
        ("invalid_payload", 405),
        ("invalid_payload", 410),
        ("invalid_payload", 415),
        ("invalid_payload", 422),
        ("invalid_payload", 431),
        ("invalid_payload", 501),
        ("content_rejected", 413),
        ("unknown", 200),
        ("unknown", 100),
        ("unknown", None),
    ],
)
@pytest.mark.parametrize("body", ["", "<html><body>sorry</body></html>", "{", "[]", '{"unrelated": 1}'])
def test_status_decides_where_the_body_says_nothing(expected, status, body):
    """An empty body, a page, broken JSON and an object without an error leave the status."""
    assert expected == class_of(status, body)


@pytest.mark.parametrize("status", [502, 504, 520, 521, 524, 408, 499])
def test_gateway_without_a_code_leaves_the_outcome_open(status):
    """A proxy that gave up does not know what the server behind it has done."""
    assert failure_of(status, "<html><title>Bad gateway</title></html>").outcome is Outcome.UNKNOWN
    assert failure_of(status).rule == "http.gateway"


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
def test_answer_of_the_api_itself_is_a_rejection(status):
    """Whoever answers with an error has not done what was asked."""
    assert failure_of(status).outcome is Outcome.REJECTED


def test_gateway_status_with_a_code_of_the_api_is_a_rejection():
    """Lambda answers with 502 for failures of its own."""
    failure = failure_of(502, {"message": "no"}, x_amzn_errortype="KMSDisabledException")
    assert (failure.error_class, failure.outcome) == (ErrorClass.PROVIDER_MISCONFIGURED, Outcome.REJECTED)


@pytest.mark.parametrize(
    "body", ["", {"id": "m-1", "message": "Queued, the rate limit is far away"}, "<p>maintenance</p>"]
)
def test_success_without_an_error_is_unknown_with_an_open_outcome(body):
    """Words in an answer that tells of no error mean nothing."""
    failure = failure_of(200, body)
    assert (failure.error_class, failure.outcome, failure.rule) == (ErrorClass.UNKNOWN, Outcome.UNKNOWN, "http.2xx")


def aws(code, message=""):
    return f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"


def slack(code):
    return {"ok": False, "error": code}


def twilio(code, status=400):
    return {"code": code, "message": "see the page", "more_info": "https://example.org/errors", "status": status}


def google(reason, status="", message="", code=400):
    return {
        "error": {
            "code": code,
            "message": message,
            "status": status,
            "errors": [{"reason": reason, "message": message}],
        }
    }


def meta(code):
    return {"error": {"message": f"(#{code})", "type": "OAuthException", "code": code, "fbtrace_id": "a"}}


def stripe(kind, code=None, **more):
    return {"error": {"type": kind, "code": code, "message": "no", **more}}


def vonage(status):
    return {"message-count": "1", "messages": [{"status": str(status), "error-text": "no"}]}


@pytest.mark.parametrize(
    ("expected", "status", "body"),
    [
        # AWS
        ("provider_throttled", 400, aws("Throttling", "Maximum sending rate exceeded.")),
        ("provider_throttled", 400, {"__type": "com.example.dynamodb#ProvisionedThroughputExceededException"}),
        ("provider_throttled", 503, aws("SlowDown")),
        ("quota_exceeded", 400, {"__type": "ServiceQuotaExceededException"}),
        ("provider_unavailable", 500, aws("InternalFailure")),
        ("provider_unavailable", 400, {"__type": "com.example#RequestTimeoutException"}),
        ("provider_misconfigured", 403, aws("SignatureDoesNotMatch")),
        ("provider_misconfigured", 400, aws("MailFromDomainNotVerifiedException")),
        ("provider_misconfigured", 400, aws("MessageRejected", "That identity is not verified in this region")),
        ("content_rejected", 400, aws("MessageRejected")),
        ("invalid_recipient", 400, aws("InvalidParameterValue", "Domain starts with dot")),
        ("invalid_payload", 400, aws("InvalidParameterValue", "Nobody knows")),
        ("invalid_recipient", 400, aws("EndpointDisabled")),
        ("recipient_suppressed", 400, {"__type": "ConflictException", "message": "", "Reason": "DESTINATION_PHONE_NUMBER_OPTED_OUT"}),
        ("invalid_payload", 400, aws("TemplateDoesNotExist")),
        ("provider_misconfigured", 400, {"Error": {"Code": "AccessDenied", "Message": "no"}, "ResponseMetadata": {}}),
        # Google, FCM
        ("provider_throttled", 403, google("userRateLimitExceeded")),
        ("quota_exceeded", 403, google("dailyLimitExceeded")),
        ("provider_unavailable", 500, google("backendError")),
        ("provider_misconfigured", 403, google("insufficientPermissions")),
        ("provider_misconfigured", 403, google("forbidden")),
        ("invalid_recipient", 400, google("invalidArgument2", message="Invalid To header: recipient not found")),
        ("invalid_recipient", 404, {"error": {"code": 404, "status": "NOT_FOUND", "details": [{"errorCode": "UNREGISTERED"}]}}),
        ("invalid_payload", 400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "details": [{"errorCode": "INVALID_ARGUMENT"}]}}),
        ("invalid_recipient", 200, {"multicast_id": 1, "failure": 1, "results": [{"error": "NotRegistered"}]}),
        # Microsoft
        ("provider_throttled", 429, {"error": {"code": "ApplicationThrottled", "message": "", "innerError": {"date": "x"}}}),
        ("invalid_recipient", 400, {"error": {"code": "ErrorInvalidRecipients", "message": ""}}),
        ("provider_misconfigured", 403, {"error": {"code": "ErrorSendAsDenied", "message": ""}}),
        # Stripe
        ("provider_throttled", 400, stripe("invalid_request_error", "rate_limit")),
        ("provider_unavailable", 500, stripe("api_error")),
        ("invalid_recipient", 402, stripe("card_error", "card_declined", decline_code="expired_card")),
        ("policy_violation", 402, stripe("card_error", "card_declined", decline_code="fraudulent")),
        ("invalid_payload", 400, stripe("invalid_request_error", "parameter_missing")),
        # SMS
        ("provider_throttled", 429, twilio(20429)),
        ("invalid_recipient", 400, twilio(21211)),
        ("recipient_suppressed", 400, twilio(21610)),
        ("content_rejected", 400, twilio(21617)),
        ("provider_misconfigured", 400, twilio(21408)),
        ("invalid_payload", 400, twilio(21999)),
        ("provider_misconfigured", 400, twilio(30893)),
        ("provider_unavailable", 500, twilio(20500)),
        ("provider_throttled", 200, vonage(1)),
        ("provider_misconfigured", 200, vonage(4)),
        ("recipient_suppressed", 200, vonage(7)),
        ("invalid_payload", 200, vonage(3)),
        ("provider_misconfigured", 402, {"type": "https://developer.vonage.com/api-errors#low-balance", "title": "No", "detail": "funds"}),
        ("provider_throttled", 400, meta(131056)),
        ("invalid_recipient", 400, meta(131026)),
        ("provider_misconfigured", 401, meta(190)),
        ("provider_misconfigured", 403, meta(215)),
        ("policy_violation", 400, meta(131047)),
        # push
        ("invalid_recipient", 410, {"reason": "Unregistered", "timestamp": 1}),
        ("provider_misconfigured", 403, {"reason": "InvalidProviderToken"}),
        ("content_rejected", 413, {"reason": "PayloadTooLarge"}),
        ("invalid_recipient", 200, {"data": [{"status": "ok"}, {"status": "error", "details": {"error": "DeviceNotRegistered"}}]}),
        ("invalid_payload", 400, {"errors": [{"code": "PUSH_TOO_MANY_NOTIFICATIONS", "message": "split it"}]}),
        # chat
        ("invalid_recipient", 200, slack("channel_not_found")),
        ("provider_throttled", 200, slack("ratelimited")),
        ("provider_misconfigured", 200, slack("missing_scope")),
        ("provider_misconfigured", 200, slack("some_new_permission_denied")),
        ("invalid_payload", 200, slack("no_text")),
        ("invalid_recipient", 403, {"ok": False, "error_code": 403, "description": "Forbidden: it got blocked by the user"}),
        ("invalid_recipient", 400, {"ok": False, "error_code": 400, "description": "Bad Request: PEER_ID_INVALID"}),
        ("provider_throttled", 429, {"ok": False, "error_code": 429, "description": "Too Many Requests: retry after 7"}),
        ("invalid_payload", 400, {"ok": False, "error_code": 400, "description": "Bad Request: can't read that"}),
        ("invalid_recipient", 403, {"ok": False, "error_code": 403, "description": "Forbidden: bot was kicked from here"}),
        # mail
        ("recipient_suppressed", 422, {"ErrorCode": 406, "Message": "no"}),
        ("provider_misconfigured", 422, {"ErrorCode": 401, "Message": "no"}),
        ("provider_unavailable", 422, {"ErrorCode": 100, "Message": "no"}),
        ("invalid_recipient", 422, {"ErrorCode": 300, "Message": "The recipient address is not valid"}),
        ("provider_misconfigured", 500, {"status": "error", "code": -1, "name": "Invalid_Key", "message": "no"}),
        ("recipient_suppressed", 200, [{"email": "a@example.org", "status": "rejected", "reject_reason": "unsub", "_id": "1"}]),
        ("invalid_recipient", 200, [{"status": "sent", "reject_reason": None}, {"status": "invalid", "reject_reason": None}]),
        ("invalid_payload", 422, {"errors": [{"message": "a field is missing", "code": "1400"}]}),
        ("recipient_suppressed", 400, {"errors": [{"message": "no", "description": "recipient address suppressed", "code": "1902"}]}),
        ("quota_exceeded", 420, {"errors": [{"message": "no", "code": "2102"}]}),
        ("provider_misconfigured", 403, {"errors": [{"message": "The from address is not a verified sender", "field": "from", "help": None}]}),
        ("provider_throttled", 429, {"statusCode": 429, "name": "rate_limit_exceeded", "message": "no"}),
        ("invalid_recipient", 422, {"statusCode": 422, "name": "validation_error", "message": "Invalid to field"}),
        ("invalid_payload", 400, {"Messages": [{"Status": "error", "Errors": [{"ErrorCode": "mj-0003", "ErrorMessage": "no"}]}]}),
        ("recipient_suppressed", 200, {"status": "success", "failed_emails": {"a@example.org": "unsubscribed"}}),
        ("invalid_recipient", 400, {"errors": [{"message": "No.", "field": "personalizations.0.to.0.email", "help": None}]}),
        ("invalid_payload", 414, "URI Too Long"),
        # nobody's
        ("provider_misconfigured", 400, {"error": "invalid_grant", "error_description": "expired"}),
        ("provider_throttled", 400, {"type": "https://example.org/problems/rate-limited", "title": "Rate limit", "status": 400}),
        ("invalid_payload", 400, {"message": "name is required"}),
        ("provider_unavailable", 400, {"error": {"message": "The server is overloaded, try again later"}}),
        ("quota_exceeded", 400, {"detail": "monthly quota exceeded"}),
        ("provider_throttled", 200, {"success": False, "errors": [{"code": "TOO_MANY_REQUESTS"}]}),
        ("provider_unavailable", 400, {"code": "RequestInProgress", "message": ""}),
        ("content_rejected", 400, {"message": "The attachment is too big"}),
        ("policy_violation", 400, {"message": "This looks like phishing"}),
        ("invalid_recipient", 400, {"message": "The phone number is not valid"}),
        ("provider_misconfigured", 400, {"message": "The sender domain does not exist"}),
        ("provider_misconfigured", 400, {"message": "Your account is suspended"}),
        ("invalid_payload", 400, {"message": "The template does not exist"}),
    ],
)  # fmt: skip
def test_body_decides_before_the_status(expected, status, body):
    """The body's own codes and words say more than the number in front of it, whoever the provider is called."""
    assert expected == class_of(status, body, "primary")


@pytest.mark.parametrize(
    ("expected", "provider", "status", "body"),
    [
        ("provider_throttled", "ses-eu", 400, {"code": "Throttling", "message": "no"}),
        ("invalid_recipient", "mailgun-eu", 400, {"message": "to parameter is not a valid address"}),
        ("provider_misconfigured", "sendgrid", 400, {"errors": [{"message": "Permission denied, wrong credentials"}]}),
        ("invalid_payload", "brevo", 400, {"code": "missing_parameter", "message": "no"}),
        ("provider_misconfigured", "my-slack", 404, "no_service"),
        ("invalid_recipient", "expo-push", 200, {"data": {"ticket": {"status": "error", "details": {"error": "DeviceNotRegistered"}}}}),
        ("invalid_recipient", "vonage", 200, {"messages": [{"status": "0"}, {"status": "33"}]}),
        ("unknown", "vonage", 200, {"messages": [{"status": "0"}]}),
        ("provider_throttled", "vonage", 200, {"status": "1", "error_text": "no"}),
        ("quota_exceeded", "twilio", 400, {"code": 63038, "message": "no"}),
        ("provider_misconfigured", "twilio", 401, "<TwilioResponse><RestException><Code>20003</Code></RestException></TwilioResponse>"),
        ("provider_unavailable", "apns", 500, {"reason": "InternalServerError", "apns-id": "1"}),
        ("invalid_payload", "stripe", 400, {"error": {"code": "parameter_missing"}}),
        ("provider_misconfigured", "graph", 401, {"error": {"code": "InvalidAuthenticationToken"}}),
        ("invalid_payload", "firebase", 404, {"error": {"code": 404, "message": "gone", "status": "NOT_FOUND"}}),
        ("provider_throttled", "whatsapp", 400, {"error": {"code": 80007}}),
        ("invalid_payload", "mandrill", 500, {"status": "error", "code": 2, "name": "Unknown_Template", "message": "x"}),
        ("provider_misconfigured", "unisender", 400, {"status": "error", "code": 102, "message": "the api key is wrong"}),
    ],
)  # fmt: skip
def test_name_settles_what_the_shape_leaves_open(expected, provider, status, body):
    """Names are the application's, so variants of a known name count as well."""
    assert expected == class_of(status, body, provider)


def test_server_that_says_whether_to_retry_is_believed():
    """`Stripe-Should-Retry` outranks the status, the code and the words."""
    assert class_of(400, stripe("invalid_request_error"), Stripe_Should_Retry="true") == "provider_unavailable"
    assert class_of(500, stripe("api_error"), Stripe_Should_Retry="false") == "invalid_payload"
    assert (
        class_of(400, stripe("invalid_request_error", "lock_timeout"), Stripe_Should_Retry="false") == "invalid_payload"
    )
    assert class_of(402, stripe("card_error", "expired_card"), Stripe_Should_Retry="false") == "invalid_recipient"
    assert class_of(500, stripe("api_error"), Stripe_Should_Retry="maybe") == "provider_unavailable"


def test_mail_servers_reply_within_an_answer_is_read_as_one():
    """A provider that hands on an SMTP reply is judged by that reply."""
    failure = failure_of(400, {"message": "550 5.1.1 user unknown"})
    assert (failure.error_class, failure.enhanced_code) == (ErrorClass.INVALID_RECIPIENT, "5.1.1")


@pytest.mark.parametrize(
    ("expected", "kind", "outcome"),
    [
        ("soft_bounce", EventKind.DEFERRED, None),
        ("unknown", EventKind.BOUNCED, None),
        ("policy_violation", EventKind.REJECTED, None),
        ("recipient_suppressed", EventKind.COMPLAINED, None),
        ("recipient_suppressed", EventKind.UNSUBSCRIBED, None),
        ("unknown", EventKind.DELIVERED, Outcome.UNKNOWN),
        ("unknown", EventKind.ACCEPTED, Outcome.UNKNOWN),
        ("unknown", EventKind.ENGAGED, Outcome.UNKNOWN),
        ("unknown", EventKind.OTHER, Outcome.UNKNOWN),
    ],
)
def test_event_that_says_nothing_more_is_judged_by_its_kind(expected, kind, outcome):
    """A bounce without a reason is not taken for the end of a recipient."""
    failure = CLASSIFIER.classify(ProviderEvent(provider="primary", kind=kind))
    assert expected == str(failure.error_class)
    assert outcome is None or outcome is failure.outcome


def test_words_of_an_event_that_is_no_failure_mean_nothing():
    """What was said on delivery is no reason for anything."""
    event = ProviderEvent(provider="ses", kind=EventKind.DELIVERED, codes=("MailboxFull",), text="spam")
    assert CLASSIFIER.classify(event).rule != "api.words.spam"


def test_codes_stand_once_in_each_vocabulary():
    """A code of two classes would be decided by the order of a table."""
    for table in (CERTAIN_CODES, VAGUE_CODES):
        for vocabulary, meanings in table.items():
            counts = collections.Counter(code for codes in meanings.values() for code in codes.split())
            assert [] == [f"{vocabulary}.{code}" for code, count in counts.items() if count > 1]
            assert [] == [code for code in counts if code != code.lower() or len(code) > 128]


def test_rules_have_names_of_their_own():
    """A name in a failure points at one rule."""
    names = [rule.name for rule in (*API_WORDS, *LAST_RULES)]
    assert sorted(set(names)) == sorted(names)
    assert all(rule.source or rule.name.startswith("event.") for rule in (*API_WORDS, *LAST_RULES))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    "error errors code message Message status name reason ok data details type title detail messages ErrorCode Error Code "
    "Reason __type multicast_id results innerError decline_code more_info error_code description parameters retry_after "
    "response_metadata statusCode reject_reason timestamp Messages Errors Status ErrorMessage failed_emails field help success "
    "extensions fbtrace_id message-count error-text error_text errorCode fieldViolations retryDelay".split()
)
VALUES = st.recursive(
    JSON
    | st.sampled_from(["error", "rejected", "invalid", "ok", "1", "550 5.1.1 x", "30s", 21211, -1, 10**400, False]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=6),
    max_leaves=25,
)
NAMES = st.none() | st.text(max_size=12) | st.sampled_from(
    "ses sendgrid mailgun postmark sparkpost mandrill mailjet unisender resend brevo twilio vonage fcm apns expo slack telegram "
    "whatsapp stripe google graph".split()
)  # fmt: skip


@pytest.mark.unmeasured
@settings(max_examples=400)
@given(
    VALUES | st.dictionaries(FIELDS, VALUES, max_size=8),
    st.integers(100, 599) | st.none(),
    NAMES,
    st.dictionaries(
        st.sampled_from(["x-amzn-ErrorType", "Stripe-Should-Retry", "Content-Type", "x"]), st.text(max_size=20)
    ),
)
def test_any_answer_is_classified_and_always_the_same(document, status, provider, headers):
    """No type in any place of a body leads to an error, and nothing is remembered from one answer to the next."""
    body = json.dumps(document)
    first = CLASSIFIER.classify(HttpReply(status, headers, body), provider=provider)
    assert first == CLASSIFIER.classify(HttpReply(status, headers, body), provider=provider)
    assert first.error_class.is_built_in
    assert first.rule
    if isinstance(document, (dict, list)):
        assert first.error_class.is_built_in
        CLASSIFIER.classify(HttpReply(status, headers, document), provider=provider)


@pytest.mark.parametrize(
    "body",
    [
        "[" * 200_000,
        '{"error":' * 50_000 + "1" + "}" * 50_000,
        json.dumps({"error": {"message": "x " * 500_000}}),
        json.dumps({"errors": [{"message": "m", "code": n} for n in range(20_000)]}),
        json.dumps({"messages": [{"status": "0"}] * 50_000, "message-count": "1"}),
        "<" + "a" * 1_000_000,
        "<Code>" * 150_000,
        "A_" * 500_000,
        "\x00" * 1_000_000,
        b"\xff\xfe" + b"\x00\xd8" * 400_000,
        '{"code": ' + "9" * 5_000 + "}",
        "550 5.1.1 " * 100_000,
    ],
    ids=range(12),
)
def test_hostile_body_is_answered_with_bounded_evidence(body):
    """Neither size nor depth keeps it from an answer; how fast it is, `benchmarks/classifier.py` tells."""
    assert len(failure_of(400, body, "twilio").error_message) < 2_100


PHRASES = sorted({phrase.strip() for rule in API_WORDS for phrase in (*rule.words, *rule.also)})


@given(st.lists(st.sampled_from(PHRASES), min_size=1, max_size=6), st.sampled_from([400, 403, 429, 500]))
@example(["bad request"], 400)
def test_answer_is_independent_of_case_space_and_wrapping(phrases, status):
    """The same words in capitals, with more space, on several lines, are the same words."""
    plain = failure_of(status, {"message": " ".join(phrases)})
    wrapped = failure_of(status, {"message": "  " + " \r\n ".join(phrases).upper().replace(" ", "   ") + "\n"})
    assert (plain.rule, plain.outcome) == (wrapped.rule, wrapped.outcome)


@pytest.mark.parametrize(
    ("expected", "body"),
    [
        ("provider_misconfigured", {"errors": {"from": ["is not a valid email address"]}}),
        (
            "provider_misconfigured",
            {"detail": [{"loc": ["body", "from"], "msg": "value is not a valid email address"}]},
        ),
        ("provider_misconfigured", {"message": "invalid email address", "field": "reply_to"}),
        ("provider_misconfigured", {"message": "invalid email address", "source": "x", "param": "sender"}),
        ("provider_misconfigured", {"message": "Invalid email address in 'from'"}),
        ("invalid_recipient", {"errors": {"to": ["is not a valid email address"]}}),
        ("invalid_recipient", {"detail": [{"loc": ["body", "to"], "msg": "value is not a valid email address"}]}),
        ("invalid_recipient", {"message": "invalid email address", "field": "to"}),
    ],
)
def test_field_that_an_error_names_says_who_is_at_fault(expected, body):
    """One wrong sender would else end every recipient of a list."""
    assert class_of(422, body) == expected


@pytest.mark.parametrize(
    ("expected", "status"),
    [
        ("provider_misconfigured", 401),
        ("provider_throttled", 429),
        ("provider_unavailable", 500),
        ("provider_unavailable", 503),
    ],
)
def test_words_end_no_recipient_against_the_status(expected, status):
    """A user who is not found with 401 is ours; with 500 it is the provider's trouble."""
    assert class_of(status, {"error": "user not found"}) == expected
    assert class_of(404, {"error": "chat not found"}) == "invalid_recipient"


def test_status_that_cannot_be_read_leaves_the_outcome_open():
    """Nobody knows what was answered."""
    assert failure_of(999, "x").outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("kind", [EventKind.OTHER, EventKind.DEFERRED, EventKind.DELIVERED])
def test_event_that_tells_of_no_end_ends_no_recipient(kind):
    """The provider goes on trying, or says something else altogether: an automatic answer, a change of address."""
    reply = SmtpReply(550, "5.1.1 user unknown")
    event = ProviderEvent(provider="postmark", kind=kind, codes=("BadEmailAddress",), text="user unknown", reply=reply)
    failure = CLASSIFIER.classify(event)
    assert failure.group.value in ("temporary_mailbox", "unmapped")
    assert failure.outcome is Outcome.UNKNOWN


def test_words_of_a_mail_server_outrank_a_vague_type_of_bounce():
    """A hard bounce whose reason is a blocklist is no dead recipient."""
    said = {"codes": ("HardBounce",), "reply": SmtpReply(550, "5.7.1 blocked using bl.example.net")}
    event = ProviderEvent(provider="postmark", kind=EventKind.BOUNCED, **said)
    assert CLASSIFIER.classify(event).error_class == "reputation_blocked"
    plain = ProviderEvent(provider="postmark", kind=EventKind.BOUNCED, codes=("HardBounce",))
    assert CLASSIFIER.classify(plain).error_class == "invalid_recipient"
