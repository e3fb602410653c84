"""What the codes of mail services mean: in answers of their APIs, and in their events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..failure import ErrorClass as C  # it stands in every row

__all__ = ["CERTAIN", "VAGUE"]


CERTAIN: Final[Mapping[str, Mapping[C, str]]] = {
    # SES events: type/subtype of bounces, delays, rejections.
    "ses": {
        C.MAILBOX_FULL: "transient/mailboxfull delay/mailboxfull delay/recipientmailboxfull",
        C.CONTENT_REJECTED: "transient/messagetoolarge transient/contentrejected transient/attachmentrejected",
        C.INVALID_RECIPIENT: "permanent/noemail permanent/emailinvalid",
        C.RECIPIENT_SUPPRESSED:
            "permanent/suppressed permanent/onaccountsuppressionlist permanent/unsubscribedrecipient "
            "permanent/ontenantsuppressionlist complaint/onaccountsuppressionlist",
        C.PROVIDER_THROTTLED: "delay/throttled",
        C.PROVIDER_UNAVAILABLE: "delay/internalfailure delay/transientcommunicationfailure delay/general",
        C.REPUTATION_BLOCKED: "delay/ipfailure delay/byoipfailure",
        C.SOFT_BOUNCE: "transient/customtimeoutexceeded",
        C.POLICY_VIOLATION: "delay/spamdetected reject/bad_content reject/bad-content",
        C.RENDERING_FAILURE: "renderingfailure rendering_failure",
    },
    # SendGrid: reasons for which it dropped a message, and types of events.
    "sendgrid": {
        C.RECIPIENT_SUPPRESSED:
            "bounced_address unsubscribed_address spam_reporting_address group_unsubscribe "
            "group_unsubscribed_address address_suppressed suppressed_address",
        C.INVALID_RECIPIENT: "invalid",
        C.QUOTA_EXCEEDED: "recipient_list_over_package_quota",
        C.POLICY_VIOLATION: "spam_content spam_content_(if_spam_checker_app_enabled)",
        C.INVALID_PAYLOAD: "invalid_smtpapi_header",
    },
    "mailgun": {
        C.RECIPIENT_SUPPRESSED: "605 606 607 suppress-bounce suppress-unsubscribe suppress-complaint",
        C.PROVIDER_UNAVAILABLE: "602 old 499",
        C.INVALID_DOMAIN: "498",
        C.REPUTATION_BLOCKED: "espblock",
        C.MAILBOX_FULL: "mailbox_full",
        C.GREYLISTED: "greylisted",
    },
    # Postmark: codes of the API (which reuse the numbers of HTTP statuses), then types of bounces.
    "postmark": {
        C.PROVIDER_THROTTLED: "429",
        C.PROVIDER_UNAVAILABLE: "100 600 700 800 900 1000 1100 transient dnserror",
        C.INVALID_RECIPIENT: "bademailaddress",
        C.SOFT_BOUNCE: "softbounce challengeverification",
        C.RECIPIENT_SUPPRESSED: "406 unsubscribe spamcomplaint manuallydeactivated",
        C.CONTENT_REJECTED: "411 virusnotification",
        C.POLICY_VIOLATION: "spamnotification",
        C.REPUTATION_BLOCKED: "blocked",
        C.PROVIDER_MISCONFIGURED:
            "10 400 401 405 412 413 500 501 503 504 505 506 507 510 512 513 604 605 610 1105 1225 1235 1236 "
            "dmarcpolicy unconfirmed",
        C.RENDERING_FAILURE: "templaterenderingfailed",
        C.INVALID_PAYLOAD:
            "12 13 402 403 409 410 502 511 514 515 516 520 521 522 602 603 606 607 608 609 611 701 702 703 809 810 "
            "811 812 813 1001 1002 1003 1101 1109 1120 1121 1122 1123 1125 1130 1131 1221 1222 1223 1224 1226 1227 "
            "1228 1229 1230 1231 1232 1233 1234 1300 1301",
        C.UNKNOWN: "unknown smtpapierror inbounderror",
    },
    # SparkPost: codes of the API, then classes of bounces.
    "sparkpost": {
        C.PROVIDER_UNAVAILABLE: "1500 1501 1502 1900 21 24 70",
        C.QUOTA_EXCEEDED: "2101 2102 2103 2105",
        C.INVALID_RECIPIENT: "10 30 5002",
        C.MAILBOX_FULL: "22",
        C.RECIPIENT_SUPPRESSED: "90 26",
        C.CONTENT_REJECTED: "23 52 53 2002",
        C.POLICY_VIOLATION: "25",
        C.REPUTATION_BLOCKED: "51 50",
        C.PROVIDER_MISCONFIGURED: "1100 1303 1304 1601 1910 54 2106 7000 7001 7002 6200",
        C.SOFT_BOUNCE: "60 100",
        C.INVALID_PAYLOAD:
            "1101 1102 1103 1200 1300 1301 1305 1400 1401 1600 1602 1603 1700 1800 1901 2000 2001 2003 2004 2005 "
            "2006 3000 3001 3002 3005 3010 3020 3030 3040 3050 5000 5001 6100 10000 10001 10002",
        C.UNKNOWN: "80",
    },
    # Mandrill: names of errors, then reasons for a rejection.
    "mandrill": {
        C.PROVIDER_THROTTLED: "toomanyrequests rate_limit",
        C.QUOTA_EXCEEDED: "test-mode-limit",
        C.PROVIDER_UNAVAILABLE: "generalerror serviceunavailable internalservererror",
        C.SOFT_BOUNCE: "soft-bounce",
        C.INVALID_RECIPIENT: "hard-bounce invalid",
        C.RECIPIENT_SUPPRESSED: "unsub custom",
        C.POLICY_VIOLATION: "spam rule",
        C.PROVIDER_MISCONFIGURED:
            "invalid_key paymentrequired invalid-sender unsigned unknown_subaccount unknown_sender poornrep "
            "unknown_ip ip_provisionlimit invalid_customdns invalid_customdnspending unknown_trackingdomain "
            "unknown_pool nosendinghistory poorreputation userlimit unknown_inbounddomain invalid_emptydefaultpool",
        C.INVALID_PAYLOAD:
            "unknown_template invalid_template template_missing unknown_message unknown_export unknown_url "
            "unknown_tagname unknown_webhook unknown_metadatafield invalid_reject unknown_inboundroute "
            "metadata_fieldlimit invalid_deletedefaultpool invalid_deletenonemptypool invalid_tag_name",
    },
    # Mailjet: `error` of an event.
    "mailjet": {
        C.INVALID_RECIPIENT: "user_unknown mailbox_inactive",
        C.INVALID_DOMAIN: "invalid_domain no_mail_host typofix",
        C.MAILBOX_FULL: "quota_exceeded",
        C.GREYLISTED: "greylisted",
        C.PROVIDER_THROTTLED: "throttled rate_limited",
        C.RECIPIENT_SUPPRESSED: "preblocked spam_reporter",
        C.REPUTATION_BLOCKED: "sender_blocked policy_issue",
        C.CONTENT_REJECTED: "content_blocked size_limit",
        C.PROVIDER_MISCONFIGURED: "relay/access_denied",
        C.PROVIDER_UNAVAILABLE: "connection_issue protocol_issue system_issue",
        C.INVALID_PAYLOAD:
            "bad_or_empty_template error_in_template_language duplicate_in_campaign header_issue mj-0001 mj-0002 "
            "mj-0003 mj-0004 mj-0006 mj-0007 mj-0008 mj-0009",
        C.SOFT_BOUNCE: "soft-bounced",
    },
    # Unisender Go: statuses of delivery; `failed_emails` of the API.
    "unisender": {
        C.INVALID_RECIPIENT: "err_user_unknown err_user_inactive err_mailbox_discarded invalid err_invalid_email",
        C.INVALID_DOMAIN: "err_domain_inactive err_domain_unknown err_no_dns",
        C.MAILBOX_FULL: "err_mailbox_full",
        C.SOFT_BOUNCE: "err_will_retry err_dest_misconfigured err_unreachable err_not_available temporary_unavailable",
        C.RECIPIENT_SUPPRESSED:
            "err_unsubscribed unsubscribed complained err_skip_letter err_complained permanent_unavailable "
            "global_unavailable err_user_blacklisted",
        C.CONTENT_REJECTED:
            "err_too_large err_spam_rejected err_spam_folder err_content err_spam_skipped err_attach_too_large",
        C.REPUTATION_BLOCKED: "err_blacklisted",
        C.POLICY_VIOLATION: "blocked err_spam_removed",
        C.GREYLISTED: "err_spam_retry",
        C.PROVIDER_UNAVAILABLE: "err_lost err_internal err_timeout",
        C.PROVIDER_MISCONFIGURED: "err_domain_not_verified err_sender_blocked",
        C.INVALID_PAYLOAD: "duplicate err_duplicate err_src_invalid",
        C.UNKNOWN: "err_delivery_failed",
    },
    "resend": {
        C.PROVIDER_THROTTLED: "rate_limit_exceeded",
        C.QUOTA_EXCEEDED: "daily_quota_exceeded monthly_quota_exceeded",
        C.PROVIDER_UNAVAILABLE:
            "application_error internal_server_error service_unavailable concurrent_idempotent_requests",
        C.PROVIDER_MISCONFIGURED:
            "missing_api_key restricted_api_key invalid_api_key invalid_access invalid_from_address security_error "
            "invalid_permission suspended",
        C.INVALID_RECIPIENT: "invalid_to_address",
        C.RECIPIENT_SUPPRESSED: "permanent/suppressed suppressed",
        C.INVALID_PAYLOAD:
            "invalid_idempotency_key invalid_idempotent_request invalid_attachment invalid_parameter "
            "missing_required_field missing_required_fields not_found method_not_allowed invalid_scope "
            "invalid_region invalid_scheduled_at",
    },
    "brevo": {
        C.PROVIDER_THROTTLED: "too_many_requests",
        C.PROVIDER_MISCONFIGURED:
            "unauthorized permission_denied not_enough_credits account_under_validation reseller_permission_denied "
            "unrecognised_ip_address",
        C.RECIPIENT_SUPPRESSED: "unsubscribed contact_blacklisted",
        C.INVALID_RECIPIENT: "invalid_email hardbounce hard_bounce hard_bounced",
        C.SOFT_BOUNCE: "softbounce soft_bounce soft_bounced",
        C.INVALID_PAYLOAD:
            "missing_parameter out_of_range campaign_sent document_not_found duplicate_parameter duplicate_request "
            "method_not_allowed not_acceptable bad_request",
        C.PROVIDER_UNAVAILABLE: "internal_error campaign_processing",
    },
}  # fmt: skip
"""Codes that mean one thing, by vocabulary and class."""

VAGUE: Final[Mapping[str, Mapping[C, str]]] = {
    "ses": {
        C.INVALID_RECIPIENT: "permanent/general permanent/undetermined permanent",
        C.SOFT_BOUNCE: "transient/general transient delay/undetermined delay",
        C.UNKNOWN: "undetermined/undetermined undetermined",
        C.RECIPIENT_SUPPRESSED: "complaint",
    },
    "sendgrid": {
        C.INVALID_RECIPIENT: "invalid_address personalizations.to.email personalizations.cc.email personalizations.bcc.email",
        C.SOFT_BOUNCE: "mailbox_unavailable",
        C.CONTENT_REJECTED: "content",
        C.REPUTATION_BLOCKED: "reputation blocked",
        C.PROVIDER_THROTTLED: "frequency_or_volume_too_high",
        C.PROVIDER_UNAVAILABLE: "technical_failure",
        C.UNKNOWN: "unclassified",
    },
    "mailgun": {C.UNKNOWN: "bounce generic", C.SOFT_BOUNCE: "temporary"},
    "postmark": {
        C.INVALID_RECIPIENT: "hardbounce",C.INVALID_PAYLOAD: "300 11"},
    "sparkpost": {C.UNKNOWN: "1", C.SOFT_BOUNCE: "20 40", C.POLICY_VIOLATION: "1902"},
    "mandrill": {
        C.INVALID_PAYLOAD: "validationerror", C.INVALID_RECIPIENT: "hard_bounce", C.SOFT_BOUNCE: "soft_bounce deferral",
    },
    "mailjet": {C.INVALID_RECIPIENT: "hard_bounce", C.SOFT_BOUNCE: "soft_bounce mailbox"},
    "unisender": {C.INVALID_RECIPIENT: "hard_bounced", C.SOFT_BOUNCE: "soft_bounced"},
    "resend": {C.INVALID_PAYLOAD: "validation_error", C.INVALID_RECIPIENT: "permanent", C.SOFT_BOUNCE: "transient"},
    "brevo": {C.INVALID_PAYLOAD: "invalid_parameter", C.POLICY_VIOLATION: "blocked", C.UNKNOWN: "error"},
}  # fmt: skip
"""Codes that stand for several causes: they count only where the words say nothing."""
