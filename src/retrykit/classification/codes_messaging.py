"""What the codes of SMS, push and chat providers mean: Twilio, Vonage, WhatsApp, FCM, APNs, Expo, Slack, Telegram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..failure import ErrorClass as C  # it stands in every row

__all__ = ["CERTAIN", "VAGUE"]


def _all(*numbers: range) -> str:
    """Return the numbers of ranges in which all codes mean the same."""
    return " ".join(str(number) for each in numbers for number in each)


CERTAIN: Final[Mapping[str, Mapping[C, str]]] = {
    # Twilio: requests (1xxxx, 2xxxx), delivery (30xxx), Verify (60xxx), channels (63xxx).
    "twilio": {
        C.PROVIDER_THROTTLED:
            "10004 14107 14109 20429 20426 20159 21611 21719 30001 30022 51202 54009 60203 60207 60212 60313 60604 "
            "63017 63018 63035 63102 68004 88007 31206 31481 31482",
        C.QUOTA_EXCEEDED: "14106 21240 30010 30023 30025 30027 30454 30455 63038 63039 63052 90009",
        C.PROVIDER_UNAVAILABLE:
            "20409 20423 20500 20501 20502 20503 20504 20507 21730 30009 30017 30020 30021 30031 30035 30036 30103 "
            "30410 30440 31000 31005 31009 31480 31486 31500 31503 50001 50500 51000 53000 53001 60001 60002 60004 "
            "60005 60401 60403 60411 60316 63009 63010 63012 63019 63023 63029 63053 63110 63111",
        C.SOFT_BOUNCE: "30003 63036 63060",
        C.INVALID_RECIPIENT:
            "13223 13224 13225 14101 14111 21211 21214 21217 21265 21401 21407 21421 21614 21635 21636 30005 30006 "
            "30011 30026 60205 60600 60610 60607 63003 63024 63026 63033 63037 60531 22221",
        C.RECIPIENT_SUPPRESSED: "21610 30046 60333 63014 63050 63071",
        C.CONTENT_REJECTED:
            "11751 21605 21617 21623 21634 30007 30019 30038 30044 63005 63021 63034 51004 63045 60419",
        C.POLICY_VIOLATION:
            "21216 30004 30039 30041 30043 30450 30451 30452 30453 30456 30457 30459 30467 30468 30469 30481 30485 "
            "60238 60315 60405 60410 60434 60435 60436 60437 63013 63016 63032 63049 63058 63061 60330",
        C.PROVIDER_MISCONFIGURED:
            "10001 10002 10003 11200 11205 11206 11210 11215 11220 11235 11236 11237 11241 11242 14102 14108 20003 "
            "20005 20006 20007 20008 20009 20010 20101 20102 20103 20104 20105 20106 20107 20151 20152 20153 20154 "
            "20155 20156 20157 20158 20161 20403 20404 21203 21210 21212 21213 21215 21219 21227 21264 21408 21450 "
            "21470 21601 21606 21607 21608 21612 21613 21615 21616 21621 21622 21628 21631 21637 21659 21660 21661 "
            "21664 21698 21701 21703 21704 21705 21706 21707 21708 21712 21713 21715 21717 21718 21720 21721 21910 "
            "30002 30018 30024 30028 30029 30030 30032 30033 30034 30037 30040 30042 30045 30047 30048 30049 30050 "
            "50101 51001 52003 52004 60008 60204 60206 60220 60221 60222 60223 60224 60225 60229 60233 60234 60240 "
            "60242 60243 60304 60305 60307 60605 60608 60609 60624 63001 63002 63007 63008 63015 63020 63022 63040 "
            "63041 63042 63043 63047 63048 63051 63054 63055 63056 63057 68000 68001 68002 68003 68005 68006 68007 "
            "68008 68009 68010 90001 90002 90006 90010 90011 90100 94300 " + _all(
                range(30100, 30103), range(30104, 30130), range(30500, 30600), range(30700, 31000), range(63100, 63102), range(63103, 63110),
                range(63112, 63200), range(22200, 22221), range(22222, 22300)),
        C.INVALID_PAYLOAD:
            "14103 14104 14105 20001 20002 20004 20405 20406 20410 20412 20415 20422 21201 21202 21205 21218 21220 "
            "21402 21403 21404 21405 21602 21603 21604 21609 21618 21619 21620 21624 21625 21626 21627 21649 21654 "
            "21655 21656 21657 21658 21702 30012 30013 30014 30015 30016 51003 51005 60200 60201 60208 60209 60210 "
            "60213 60214 60217 60218 60226 60227 60228 60230 60231 60300 60301 60302 60303 60306 60308 60310 60311 "
            "60312 60318 60319 60320 60321 60322 60323 60324 60325 60329 60390 60404 60422 63006 63011 63025 63027 "
            "63028 63030 63031 63044 63046 12100 12200 12300 12400 19023 35111 35112 35113 35114 35115 35116 35117 "
            "35118 35119 35120 35124 35125 35126 35127 35128 35129 60202 60402 60412 60500 60501",
        C.UNKNOWN: "30008 63062",
    },
    # Vonage: SMS statuses, Messages API (1xxx), and names of problems; delivery receipts stand under "vonage_receipt".
    "vonage": {
        C.PROVIDER_THROTTLED: "1 10 throttled rate-limit 1000 1241 1461 1472 verify.1 too-many-requests",
        C.QUOTA_EXCEEDED: "9 1070 1460 quota-exceeded",
        C.PROVIDER_UNAVAILABLE:
            "5 13 1030 1100 1230 1331 1360 1490 internal-error internal-server-error service-unavailable internal "
            "verify.5 verify.10 concurrent",
        C.SOFT_BOUNCE: "1180 1220",
        C.INVALID_RECIPIENT: "33 34 1040 1170 1190 1200 1260 1300 1310 1430 1250 verify.8 invalid-number msisdn-error",
        C.RECIPIENT_SUPPRESSED: "7 1050 1240 2003 1483",
        C.CONTENT_REJECTED: "12 1090 1381 2002 1210",
        C.POLICY_VIOLATION: "17 1270 1280 1282 1340 1470 1473 1474 1475 2001 verify.7 unavailable-legal",
        C.PROVIDER_MISCONFIGURED:
            "low-balance out-of-credit insufficient-balance verify.9 4 8 11 14 15 29 32 1060 1080 1120 1140 1160 "
            "1242 1251 1350 1370 1420 1476 1480 1481 1482 1484 unauthorized forbidden unprovisioned "
            "account-suspended jwt-expired jwt-revoked invalid-api-key invalid-signature invalid-ip "
            "multiple-auth-methods application-suspended verify.4 verify.15 verify.20 verify.29 invalid-credentials",
        C.INVALID_PAYLOAD:
            "2 3 20 22 23 1010 1020 1021 1022 1130 1150 1320 1380 1382 1400 1410 1431 1440 1450 1451 invalid-params "
            "invalid-id invalid-json wrong-verb accept-header content-type-header not-found fragment-exists "
            "template-fragment-not-found template-not-found template-exists not-empty-template expired no-code "
            "max-templates invalid-code no-events request-not-found precondition-failed network-error "
            "payload-validation list-validation validation delete-last-secret verify.2 verify.3 verify.6 verify.16 "
            "verify.17 verify.19 verify.101",
    },
    "vonage_receipt": {
        C.INVALID_RECIPIENT: "3 20 22 absent_subscriber_permanent",
        C.SOFT_BOUNCE: "2 6 1290 23",
        C.PROVIDER_UNAVAILABLE: "5 10 12 21",
        C.RECIPIENT_SUPPRESSED: "9",
        C.POLICY_VIOLATION: "4 7 13 14 18 50 51 52 53 54 19",
        C.PROVIDER_MISCONFIGURED: "11 15 39 41 43",
        C.INVALID_PAYLOAD: "8 17",
        C.CONTENT_REJECTED: "16",
        C.QUOTA_EXCEEDED: "40",
        C.UNKNOWN: "1 99",
    },
    # WhatsApp Cloud API, with the codes of Meta's Graph API.
    "whatsapp": {
        C.PROVIDER_THROTTLED:
            "4 17 32 341 613 80007 130429 131048 131056 133016 133008 133009 80004 80005 80006 80008 80014",
        C.QUOTA_EXCEEDED: "131064",
        C.PROVIDER_UNAVAILABLE: "2 131016 131057 133004 131052 500 503",
        C.INVALID_RECIPIENT: "131026 131062",
        C.RECIPIENT_SUPPRESSED: "131050",
        C.CONTENT_REJECTED: "131053 131059",
        C.POLICY_VIOLATION: "368 130472 130497 131047 131049 132007 131063",
        C.PROVIDER_MISCONFIGURED:
            "0 3 10 33 102 104 190 200 210 294 299 131005 131030 131031 131037 131041 131042 131045 131055 131044 "
            "132015 132016 132068 132069 133000 133005 133006 133010 133015 134011 134100 134101 134102 139000 "
            "139001 139002 139003 139004 2388091 2388093 2494100 463 467 460 458 459 464 492 " + _all(range(201, 210), range(211, 294), range(295, 299)),
        C.INVALID_PAYLOAD:
            "132000 132001 132005 132008 132012 132018 131008 131021 131051 131054 131058 131060 131061 135000 "
            "2388019 2388039 2388040 2388047 2388072 2388073 2388293 2388299 132009 132010 132011 132013 132014 "
            "132019 2593107 2593108 506",
    },
    # FCM: HTTP v1, then the legacy API.
    "fcm": {
        C.PROVIDER_THROTTLED:
            "quota_exceeded devicemessagerateexceeded topicsmessagerateexceeded device_message_rate_exceeded "
            "topics_message_rate_exceeded resource_exhausted",
        C.PROVIDER_UNAVAILABLE: "unavailable internal internalservererror internal_error deadline_exceeded aborted",
        C.INVALID_RECIPIENT:
            "unregistered notregistered invalidregistration registration_token_not_registered "
            "invalid_registration_token",
        C.PROVIDER_MISCONFIGURED:
            "sender_id_mismatch mismatchsenderid third_party_auth_error invalidapnscredential invalidapnscredentials "
            "permission_denied unauthenticated authentication_error authenticationerror invalidpackagename "
            "mismatched_credential consumer_invalid service_disabled",
        C.CONTENT_REJECTED: "messagetoobig payload_size_limit_exceeded",
        C.INVALID_PAYLOAD:
            "missingregistration invalidttl invaliddatakey invalidparameters invalid_payload invalid_parameters "
            "failed_precondition",
    },
    "apns": {
        C.PROVIDER_THROTTLED: "toomanyrequests toomanyprovidertokenupdates",
        C.PROVIDER_UNAVAILABLE: "internalservererror serviceunavailable shutdown idletimeout",
        C.INVALID_RECIPIENT: "baddevicetoken unregistered expiredtoken missingdevicetoken",
        C.PROVIDER_MISCONFIGURED:
            "badcertificate badcertificateenvironment devicetokennotfortopic expiredprovidertoken forbidden "
            "invalidprovidertoken missingprovidertoken topicdisallowed unrelatedkeyidintoken "
            "badenvironmentkeyidintoken badenvironmentkeyintoken badtopic missingtopic invalidsigningkey badteamid",
        C.CONTENT_REJECTED: "payloadtoolarge",
        C.INVALID_PAYLOAD:
            "badcollapseid badexpirationdate badmessageid badpriority duplicateheaders invalidpushtype payloadempty "
            "badpath methodnotallowed badchannelid channelnotregistered featurenotenabled missingpushtype "
            "missingchannelid missingpayload badeventtype cannotcreatechannelconfig",
    },
    "expo": {
        C.PROVIDER_THROTTLED: "messagerateexceeded too_many_requests rate_limit_error",
        C.PROVIDER_UNAVAILABLE: "providererror expoerror internal_server_error unavailable",
        C.INVALID_RECIPIENT: "devicenotregistered push_token_invalid invalidpushtoken",
        C.CONTENT_REJECTED: "messagetoobig",
        C.PROVIDER_MISCONFIGURED:
            "invalidcredentials mismatchsenderid unauthorized invalidprovidertoken developererror",
        C.INVALID_PAYLOAD:
            "push_too_many_notifications push_too_many_receipts push_too_many_experience_ids validation_error "
            "api_error",
    },
    # Slack: the errors of chat.postMessage and those of every method; incoming webhooks.
    "slack": {
        C.PROVIDER_THROTTLED: "ratelimited rate_limited message_limit_exceeded too_many_requests",
        C.PROVIDER_UNAVAILABLE:
            "internal_error fatal_error service_unavailable request_timeout team_added_to_org rollup_error "
            "external_channel_migrating migration_in_progress slack_connect_busy server_error",
        C.INVALID_RECIPIENT:
            "channel_not_found is_archived channel_is_archived user_not_found users_not_found user_disabled "
            "user_not_visible no_channel cannot_dm_bot im_not_found no_user invalid_user invalid_channel "
            "duplicate_channel_not_found duplicate_message_not_found user_is_bot user_not_in_channel",
        C.PROVIDER_MISCONFIGURED:
            "not_authed invalid_auth account_inactive token_revoked token_expired no_permission missing_scope "
            "not_allowed_token_type org_login_required access_denied accesslimited two_factor_setup_required "
            "team_access_not_granted enterprise_is_restricted invalid_token no_active_hooks no_service no_service_id "
            "no_team team_disabled team_not_found invalid_client_id bad_client_secret not_in_channel "
            "messages_tab_disabled as_user_not_supported not_allowed upgrade_required paid_teams_only "
            "feature_not_enabled app_not_installed cannot_auth_user invalid_scope not_paid plan_upgrade_required "
            "deprecated_endpoint method_deprecated team_quota_exceeded is_bot bot_not_found invalid_app_id no_app_id "
            "user_not_authorized token_rotation_not_enabled request_not_authorized not_admin not_an_admin "
            "external_channel_not_allowed slack_connect_canvas_sharing_blocked slack_connect_clip_sharing_blocked "
            "slack_connect_lists_sharing_blocked workflow_not_found url_verification_failed",
        C.POLICY_VIOLATION:
            "restricted_action restricted_action_read_only_channel restricted_action_thread_only_channel "
            "restricted_action_non_threadable_channel restricted_action_thread_locked "
            "posting_to_general_channel_denied user_is_restricted user_is_ultra_restricted ekm_access_denied "
            "action_prohibited cannot_reply_to_message slack_connect_file_link_sharing_blocked "
            "slack_connect_blocked_file_type slack_connect_file_upload_sharing_blocked channel_cannot_be_unfurled "
            "spam",
        C.CONTENT_REJECTED:
            "msg_too_long too_many_attachments metadata_too_large msg_blocks_too_long too_many_contact_cards "
            "attachment_payload_limit_exceeded",
        C.INVALID_PAYLOAD:
            "no_text invalid_blocks invalid_blocks_format invalid_attachments block_mismatch invalid_arguments "
            "invalid_arg_name invalid_array_arg invalid_charset invalid_form_data invalid_post_type "
            "missing_post_type missing_charset superfluous_charset json_not_object invalid_json invalid_payload "
            "invalid_metadata_format invalid_metadata_schema metadata_must_be_sent_from_app thread_not_found "
            "message_not_found cant_update_message edit_window_closed invalid_time time_in_past time_too_far "
            "invalid_scheduled_message_id markdown_text_conflict missing_file_data missing_argument unknown_method "
            "cannot_parse_attachment unsupported_content_type invalid_unfurls missing_unfurls missing_text "
            "cant_broadcast_message cant_delete_message compliance_exports_prevent_deletion invalid_cursor "
            "invalid_limit invalid_name name_taken already_in_channel cant_invite_self invalid_post_typ "
            "missing_post_typ invalid_timestamp bad_timestamp method_not_supported_for_channel_type "
            "channel_type_not_supported no_dual_broadcast_content_update title_required file_not_found file_deleted "
            "not_supported invalid_trigger trigger_expired trigger_exchanged view_too_large duplicate_external_id "
            "invalid_thread_ts invalid_ts invalid_icon_emoji",
    },
    # Telegram: constants in descriptions.
    "telegram": {
        C.PROVIDER_THROTTLED: "429 flood_wait slowmode_wait peer_flood",
        C.INVALID_RECIPIENT:
            "peer_id_invalid user_is_blocked input_user_deactivated user_deactivated chat_id_invalid user_id_invalid "
            "channel_invalid channel_private user_deactivated_ban chat_not_found user_is_bot chat_invalid "
            "user_not_participant phone_not_occupied",
        C.POLICY_VIOLATION:
            "chat_write_forbidden chat_restricted chat_send_plain_forbidden chat_send_media_forbidden "
            "chat_send_photos_forbidden chat_send_videos_forbidden chat_send_gifs_forbidden "
            "chat_send_stickers_forbidden chat_send_inline_forbidden chat_send_docs_forbidden user_banned_in_channel "
            "voice_messages_forbidden chat_guest_send_forbidden user_privacy_restricted premium_account_required "
            "allow_payment_required",
        C.PROVIDER_MISCONFIGURED:
            "chat_admin_required bot_method_invalid token_invalid auth_key_unregistered access_token_invalid",
        C.CONTENT_REJECTED: "message_too_long media_caption_too_long file_too_big entities_too_long",
        C.INVALID_PAYLOAD:
            "button_url_invalid button_data_invalid button_type_invalid message_id_invalid message_empty "
            "reply_markup_invalid webpage_curl_failed webpage_media_empty photo_invalid_dimensions photo_ext_invalid "
            "media_empty file_reference_expired entity_bounds_invalid message_not_modified reply_message_id_invalid "
            "topic_closed topic_deleted button_user_invalid button_copy_text_invalid query_id_invalid wrong_file_id "
            "image_process_failed file_part_invalid reaction_invalid document_invalid stickerset_invalid "
            "button_url_empty",
    },
}  # fmt: skip
"""Codes that mean one thing, by vocabulary and class."""

VAGUE: Final[Mapping[str, Mapping[C, str]]] = {
    "twilio": {
        C.INVALID_PAYLOAD: _all(range(12000, 13000), range(20400, 20403), range(20411, 20420), range(21100, 22000), range(60000, 60600)),
        C.PROVIDER_MISCONFIGURED: _all(range(20100, 20160), range(63000, 63100)),
        C.PROVIDER_UNAVAILABLE: _all(range(20500, 20600)),
    },
    "vonage": {C.INVALID_PAYLOAD: "6 invalid-message", C.UNKNOWN: "1330 99"},
    "whatsapp": {
        C.PROVIDER_UNAVAILABLE: "1", C.INVALID_PAYLOAD: "100 131009", C.UNKNOWN: "131000",
    },
    "fcm": {C.INVALID_PAYLOAD: "invalid_argument not_found"},
    "telegram": {
        C.PROVIDER_MISCONFIGURED: "401 403 404 409", C.INVALID_PAYLOAD: "400", C.PROVIDER_UNAVAILABLE: "500 502 503 504",
        C.CONTENT_REJECTED: "413",
    },
}  # fmt: skip
"""Codes that stand for several causes: they count only where the words say nothing."""
