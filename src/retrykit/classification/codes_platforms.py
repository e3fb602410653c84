"""What the codes of platforms mean: AWS, Google, Microsoft, Stripe, and what the name of an unlisted code is like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..failure import ErrorClass as C  # it stands in every row

__all__ = ["CERTAIN", "VAGUE"]

CERTAIN: Final[Mapping[str, Mapping[C, str]]] = {
    # AWS: the common errors of its APIs; SES, SNS, SQS, End User Messaging, Lambda, DynamoDB, Kinesis, S3, STS; and what
    # botocore's retry tables say.
    "aws": {
        C.PROVIDER_THROTTLED:
            "throttling throttlingexception throttled throttledexception throttledrequestexception requestthrottled "
            "requestthrottledexception requestthrottling requestthrottlingexception toomanyrequests "
            "toomanyrequestsexception requestlimitexceeded bandwidthlimitexceeded slowdown priorrequestnotcomplete "
            "provisionedthroughputexceeded provisionedthroughputexceededexception ec2throttledexception "
            "kmsthrottling kmsthrottlingexception kmsthrottled kmsthrottledexception overlimit toomanysendsexception "
            "requestrateexceeded throughputexceeded",
        C.QUOTA_EXCEEDED:
            "servicequotaexceeded servicequotaexceededexception topiclimitexceeded topiclimitexceededexception "
            "subscriptionlimitexceeded subscriptionlimitexceededexception filterpolicylimitexceeded "
            "filterpolicylimitexceededexception taglimitexceeded taglimitexceededexception monthlyspendlimitreached "
            "monthly_spend_limit_reached_for_text monthly_spend_limit_reached_for_voice "
            "monthly_spend_limit_reached_for_media dailysendingquotaexceeded sendingquotaexceeded "
            "enilimitreachedexception codestorageexceededexception accountlimitexceeded",
        C.PROVIDER_UNAVAILABLE:
            "serviceunavailable serviceunavailableexception serviceexception internalfailure "
            "internalfailureexception internalerror internalerrorexception internalservererror "
            "internalserverexception internalservererrorexception internalserviceerror internalserviceerrorexception "
            "internalservice internalserviceexception requesttimeout requesttimeoutexception dependencyexception "
            "dependencytimeoutexception idpcommunicationerror idpcommunicationerrorexception staletag "
            "staletagexception concurrentaccess concurrentaccessexception concurrentmodificationexception "
            "operationaborted transactioninprogressexception transactionconflictexception "
            "replicatedwriteconflictexception resourcenotreadyexception purgequeueinprogress queuedeletedrecently "
            "resourceinuseexception resourceconflictexception ec2unexpectedexception efsioexception "
            "efsmountconnectivityexception efsmounttimeoutexception snapstartnotreadyexception "
            "snapstarttimeoutexception busy serverexception unavailable requestinprogress modelnotreadyexception",
        C.PROVIDER_MISCONFIGURED:
            "accessdenied accessdeniedexception accountproblem allaccessdisabled authfailure authorizationerror "
            "authorizationerrorexception authorizationheadermalformed expiredtoken expiredtokenexception "
            "expiredtradeintokenexception incompletesignature incompletesignatureexception invalidaccesskeyid "
            "invalidclienttokenid invalidsecurity invalidsecurityexception invalidsignatureexception "
            "invalididentitytoken invalididentitytokenexception invalidauthorizationmessageexception invalidtoken "
            "missingauthenticationtoken missingauthenticationtokenexception missingsecurityheader notauthorized "
            "notauthorizedexception optinrequired subscriptionrequiredexception pendingverification requestexpired "
            "requesttimetooskewed signaturedoesnotmatch unauthorized unauthorizedaccess unauthorizedoperation "
            "unrecognizedclient unrecognizedclientexception useraccessdenied idprejectedclaim "
            "idprejectedclaimexception regiondisabled regiondisabledexception packedpolicytoolarge "
            "packedpolicytoolargeexception malformedpolicydocument malformedpolicydocumentexception kmsdisabled "
            "kmsdisabledexception kmsinvalidstate kmsinvalidstateexception kmsnotfound kmsnotfoundexception "
            "kmsaccessdenied kmsaccessdeniedexception kmsoptinrequired kmsinvalidkeyusage "
            "kmsinvalidkeyusageexception accountsendingpaused accountsendingpausedexception accountsuspended "
            "accountsuspendedexception sendingpaused sendingpausedexception configurationsetsendingpaused "
            "configurationsetsendingpausedexception configurationsetdoesnotexist "
            "configurationsetdoesnotexistexception fromemailaddressnotverified fromemailaddressnotverifiedexception "
            "mailfromdomainnotverified mailfromdomainnotverifiedexception productionaccessnotgranted "
            "productionaccessnotgrantedexception customverificationemailtemplatedoesnotexist "
            "platformapplicationdisabled platformapplicationdisabledexception queuedoesnotexist nonexistentqueue "
            "queuenameexists nosuchbucket invalidbucketname invalidsnstopic invalidsnstopicexception "
            "invalidlambdafunction invalidsubnetidexception invalidsecuritygroupidexception invalidruntimeexception "
            "invalidzipfileexception subnetipaddresslimitreachedexception ec2accessdeniedexception "
            "efsmountfailureexception resourcenotfoundexception accessdeniedbymeta accessdeniedbymetaexception "
            "destination_phone_number_not_verified verified_destination_number_not_found account_disabled "
            "origination_identity_not_found no_origination_identities_found sender_id_not_registered "
            "sender_id_not_supported phone_number_not_in_registration_region registration_not_complete "
            "insufficient_account_reputation country_code_mismatch protect_configuration_not_associated kmsexception",
        C.RECIPIENT_SUPPRESSED:
            "optedout optedoutexception destination_phone_number_opted_out "
            "destination_phone_number_blocked_by_protect_number_override",
        C.INVALID_RECIPIENT:
            "endpointdisabled endpointdisabledexception invalid_phone_number invalid_destination_phone_number "
            "phone_number_not_valid destinationphonenumberinvalid",
        C.CONTENT_REJECTED:
            "requesttoolargeexception requestentitytoolarge requestentitytoolargeexception entitytoolarge "
            "batchrequesttoolong batchrequesttoolongexception metadatatoolarge maxmessagelengthexceeded "
            "itemcollectionsizelimitexceededexception",
        C.POLICY_VIOLATION:
            "destination_country_blocked destination_country_blocked_by_protect_configuration "
            "destination_phone_number_blocked",
        C.INVALID_PAYLOAD:
            "invalidparametercombination invalidqueryparameter malformedquerystring malformedinput malformedxml "
            "malformedhttprequestexception missingaction missingparameter missingrequiredparameterexception "
            "invalidaction invalidrequestcontentexception serializationexception unknownoperation "
            "unknownoperationexception unsupportedmediatypeexception unsupportedoperation nosuchversion "
            "emptybatchrequest emptybatchrequestexception toomanyentriesinbatchrequest "
            "toomanyentriesinbatchrequestexception batchentryidsnotdistinct batchentryidsnotdistinctexception "
            "invalidbatchentryid invalidbatchentryidexception invalidmessagecontents invalididformat "
            "invalidattributename invalidattributevalue receipthandleisinvalid messagenotinflight invalidtemplate "
            "invalidtemplateexception invalidrenderingparameter invalidrenderingparameterexception "
            "missingrenderingattribute missingrenderingattributeexception templatedoesnotexist "
            "templatedoesnotexistexception templatenamedoesnotexist alreadyexists alreadyexistsexception "
            "customverificationemailinvalidcontent invalidparametersexception nosuchkey invalidargument "
            "invaliddigest baddigest incompletebody invalidrange methodnotallowed usererror usererrorexception "
            "replayed invalidmessage conditionalcheckfailedexception idempotentparametermismatchexception "
            "duplicateitemexception preconditionfailed preconditionfailedexception invalidcodesignatureexception",
    },
    # Google APIs (Gmail, Cloud): `errors[].reason`, `status`, `details[].reason`.
    "google": {
        C.PROVIDER_THROTTLED:
            "ratelimitexceeded userratelimitexceeded concurrentlimitexceeded resource_exhausted rate_limit_exceeded "
            "toomanyrequests servinglimitexceeded variabletermlimitexceeded variabletermexpireddailyexceeded "
            "limitexceeded",
        C.QUOTA_EXCEEDED:
            "dailylimitexceeded quotaexceeded dailylimitexceededunreg uploadratelimitexceeded sendinglimitexceeded "
            "dailysendinglimitexceeded storagequotaexceeded",
        C.PROVIDER_UNAVAILABLE:
            "backenderror internalerror unavailable deadline_exceeded aborted internal backendnotconnected notready "
            "servererror transient temporarilyunavailable",
        C.PROVIDER_MISCONFIGURED:
            "autherror authenticated required unauthenticated permission_denied insufficientpermissions "
            "access_token_expired access_token_scope_insufficient access_token_type_unsupported accessnotconfigured "
            "domainpolicy service_disabled consumer_suspended consumer_invalid billing_disabled billingnotenabled "
            "accountdisabled accountdeleted accountsuspended accountunverified usersuspended appnotauthorizedtofile "
            "invalidcredentials expired keyinvalid keyexpired api_key_invalid api_key_service_blocked "
            "api_key_http_referrer_blocked api_key_ip_address_blocked iprefererblocked mailservicenotenabled "
            "insufficientauthorizedparty delegation_denied credentials_missing account_state_invalid "
            "user_project_denied organization_restriction_violation",
        C.CONTENT_REJECTED: "uploadtoolarge requesttoolarge responsetoolarge messagetoolarge",
        C.INVALID_PAYLOAD:
            "parseerror invalidparameter invalidvalue required_field unknown_api missingparameter "
            "conditionnotmet duplicate already_exists notimplemented unimplemented out_of_range "
            "httpmethodnotallowed unsupportedmediatype lengthrequired",
    },
    # Microsoft Graph, with Exchange's own names.
    "microsoft": {
        C.PROVIDER_THROTTLED:
            "toomanyrequests applicationthrottled activitylimitreached mailboxconcurrency applicationconcurrency "
            "errortoomanyobjectsopened erroroverbudget throttledrequest throttlingerror",
        C.QUOTA_EXCEEDED:
            "quotalimitreached errormessagesubmissionblocked errorexceededmessagelimit errormessagelimitexceeded "
            "errorquotaexceeded errorexceededmessageratelimit",
        C.PROVIDER_UNAVAILABLE:
            "servicenotavailable serviceunavailable generalexception internalservererror errorinternalservererror "
            "errorinternalservertransienterror errorserverbusy errortimeoutexpired errormailboxstoreunavailable "
            "errorconnectionfailed gatewaytimeout timeout unknownerror errormailboxmoveinprogress resyncrequired "
            "errortransientexception errorbatchprocessingstopped errornotready edbserverbusy",
        C.MAILBOX_FULL: "errormailboxfull",
        C.PROVIDER_MISCONFIGURED:
            "invalidauthenticationtoken unauthenticated unauthorized accessdenied erroraccessdenied "
            "errorsendasdenied errorinvalidclientid authorization_requestdenied authorization_identitynotfound "
            "authenticationerror compacttoken lifetimevalidationfailed tokennotfound mailboxnotenabledforrestapi "
            "mailboxnotsupportedforrestapi errormailboxlogondenied erroraccountsuspend "
            "erroraccountsuspendshowtierupgrade erroraccountsuspendedshowtierupgrade errorclientdisabled "
            "errorinsufficientpermissions notallowed paymentrequired tenantnotfound errornonexistentmailbox "
            "errorpasswordexpired errorpasswordchangerequired errorlogonnetworkingtypenotsupported forbidden "
            "unsupportedprotocol subscriptionnotfound restapinotenabledforcomponentsharedmailbox "
            "erroritemsendonbehalf",
        C.INVALID_RECIPIENT:
            "errorinvalidrecipients errorinvalidsmtpaddress errorrecipientnotfound errornameresolutionnoresults",
        C.CONTENT_REJECTED:
            "errormessagesizeexceeded errorattachmentsizelimitexceeded errorattachmentnestlevellimitexceeded "
            "errorattachmentsizeexceeded requestentitytoolarge maxmessagesizeexceeded errorspamdetected "
            "contenttoolarge",
        C.POLICY_VIOLATION: "errorsendspam malwaredetected erroroutboundspam",
        C.INVALID_PAYLOAD:
            "invalidrequest badrequest errorinvalidrequest errorschemavalidation errorinvalidproperty errorinvalidid "
            "errorinvalididmalformed errorinvalididempty errorpropertyvalidationfailure errorinvalidpropertyset "
            "errormissingargument errorinvalidargument errorinvalidoperation erroritemnotfound itemnotfound "
            "resourcenotfound request_resourcenotfound request_badrequest request_unsupportedquery "
            "errorincorrectschema nameexists resourcemodified notsupported notimplemented erroritemsave "
            "errorirresolvableconflict errormimecontentinvalid errormimecontentinvalidbase64string "
            "errormissingrecipients errorinvalidattachmentid unsupportedmediatype malformedentitytag invalidrange "
            "methodnotallowed preconditionfailed errorinvalidchangekey",
    },
    # OAuth 2.0: RFC 6749 sections 4.1.2.1 and 5.2, RFC 6750 section 3.1.
    "oauth": {
        C.PROVIDER_UNAVAILABLE: "server_error temporarily_unavailable",
        C.PROVIDER_MISCONFIGURED:
            "invalid_grant invalid_client unauthorized_client access_denied invalid_scope invalid_token insufficient_scope "
            "unsupported_grant_type",
        C.INVALID_PAYLOAD: "unsupported_response_type",
    },
    # Stripe: types, codes, decline codes. A declined card is its owner's.
    "stripe": {
        C.PROVIDER_THROTTLED: "rate_limit rate_limit_error rate_limit_exceeded",
        C.PROVIDER_UNAVAILABLE:
            "should_retry lock_timeout idempotency_key_in_use processing_error try_again_later issuer_not_available "
            "reenter_transaction api_connection_error charge_already_pending bank_account_verification_pending "
            "payment_intent_action_pending service_unavailable account_info_unavailable",
        C.PROVIDER_MISCONFIGURED:
            "authentication_error permission_error api_key_expired platform_api_key_expired secret_key_required "
            "platform_account_required account_invalid account_closed_platform testmode_charges_only "
            "livemode_mismatch country_unsupported not_allowed_on_standard_account oauth_not_supported "
            "payouts_not_allowed transfers_not_allowed forwarding_api_inactive tls_version_unsupported "
            "account_country_invalid_address balance_insufficient sepa_unsupported_account url_invalid "
            "capability_not_enabled insufficient_permissions state_unsupported invalid_client invalid_grant",
        C.INVALID_RECIPIENT:
            "email_invalid invalid_email phone_number_invalid invalid_phone_number expired_card card_declined "
            "incorrect_number invalid_number invalid_cvc incorrect_cvc incorrect_zip incorrect_address "
            "invalid_expiry_month invalid_expiry_year invalid_account bank_account_unusable bank_account_declined "
            "bank_account_unverified account_number_invalid routing_number_invalid no_account account_closed "
            "invalid_card_type card_not_supported new_account_information_available invalid_pin incorrect_pin "
            "pin_try_exceeded debit_not_authorized token_card_network_invalid",
        C.POLICY_VIOLATION:
            "generic_decline do_not_honor do_not_try_again call_issuer fraudulent lost_card stolen_card pickup_card "
            "restricted_card security_violation merchant_blacklist transaction_not_allowed not_permitted "
            "no_action_taken service_not_allowed stop_payment_order revocation_of_all_authorizations "
            "revocation_of_authorization insufficient_funds card_velocity_exceeded withdrawal_count_limit_exceeded "
            "card_decline_rate_limit_exceeded currency_not_supported authentication_required "
            "authentication_not_handled approve_with_id offline_pin_required online_or_offline_pin_required "
            "testmode_decline duplicate_transaction invalid_amount payment_method_customer_decline "
            "payment_method_provider_decline payment_intent_authentication_failure "
            "setup_intent_authentication_failure highest_risk_level elevated_risk_level previously_declined_card "
            "payment_intent_payment_attempt_failed",
        C.INVALID_PAYLOAD:
            "should_not_retry idempotency_error idempotency_key_reused parameter_missing parameter_unknown "
            "parameter_invalid_empty parameter_invalid_integer parameter_invalid_string_blank "
            "parameter_invalid_string_empty parameters_exclusive resource_missing resource_already_exists "
            "amount_too_large amount_too_small invalid_charge_amount charge_already_captured charge_already_refunded "
            "charge_disputed charge_expired_for_capture charge_not_refundable coupon_expired "
            "customer_max_subscriptions missing property_missing order_creation_failed "
            "payment_intent_unexpected_state payment_intent_incompatible_payment_method "
            "payment_intent_invalid_parameter payment_method_unactivated payment_method_unexpected_state "
            "setup_intent_unexpected_state setup_intent_invalid_parameter sku_inactive product_inactive "
            "token_already_used token_in_use shipping_calculation_failed tax_id_invalid taxes_calculation_failed "
            "postal_code_invalid instant_payouts_unsupported invoice_no_customer_line_items invoice_not_editable "
            "invoice_no_subscription_line_items invoice_upcoming_none invoice_payment_intent_requires_action "
            "no_payment_method payment_method_not_available payment_method_invalid_parameter "
            "payment_method_currency_mismatch upcoming_invoice_none refund_disputed_payment metadata_invalid "
            "invalid_source_usage source_usage_invalid billing_invalid_mandate bank_account_exists "
            "alipay_upgrade_required missing_required_parameter invalid_request api_version_mismatch",
    },
}  # fmt: skip
"""Codes that mean one thing, by vocabulary and class."""

VAGUE: Final[Mapping[str, Mapping[C, str]]] = {
    "aws": {
        C.PROVIDER_UNAVAILABLE: "conflictexception conflict invalidstateexception",
        C.QUOTA_EXCEEDED: "limitexceeded limitexceededexception",
        C.CONTENT_REJECTED: "messagerejected",
        C.PROVIDER_MISCONFIGURED:
            "notfound notfoundexception resourcenotfound nosuchentity verificationexception invalidstate",
        C.INVALID_PAYLOAD:
            "validationexception validationerror validation invalidparameter invalidparameterexception "
            "invalidparametervalue invalidparametervalueexception invalidrequest invalidrequestexception badrequest "
            "badrequestexception invalidinput invalidinputexception",
    },
    "google": {
        C.INVALID_PAYLOAD: "badrequest invalid invalid_argument notfound not_found conflict",
        C.PROVIDER_MISCONFIGURED: "forbidden",
        C.PROVIDER_UNAVAILABLE: "unknown cancelled data_loss",
    },
    "microsoft": {
        C.PROVIDER_UNAVAILABLE: "conflict", C.INVALID_PAYLOAD: "invalidargument notfound",
        C.PROVIDER_MISCONFIGURED: "errorinvaliduser erroruser",
    },
    "stripe": {
        C.PROVIDER_UNAVAILABLE: "api_error", C.INVALID_PAYLOAD: "invalid_request_error", C.POLICY_VIOLATION: "card_error",
    },
    # What the name of a code is like, where it stands in no table.
    "like": {
        C.RECIPIENT_SUPPRESSED: "suppressed", C.PROVIDER_THROTTLED: "throttled", C.QUOTA_EXCEEDED: "quota",
        C.INVALID_RECIPIENT: "recipient", C.PROVIDER_MISCONFIGURED: "access", C.CONTENT_REJECTED: "large",
        C.POLICY_VIOLATION: "policy", C.PROVIDER_UNAVAILABLE: "passing", C.INVALID_PAYLOAD: "payload",
    },
}  # fmt: skip
"""Codes that stand for several causes: they count only where the words say nothing."""
