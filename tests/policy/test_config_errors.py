"""What is wrong in a matrix in TOML: the place, the value seen, and what is allowed."""

from __future__ import annotations

import pytest

from retrykit.errors import ConfigurationError
from retrykit.failure import ErrorGroup
from retrykit.policy import PolicyMatrix

POLICY = "[policies.sender]\nmax_retries = 1\n"
WHERE = "the matrix: policies.sender"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_age =", "the text is not TOML: Invalid value (at end of document)"),
        ("max_agee = 3", "the matrix has the unknown key 'max_agee'; did you mean 'max_age'?"),
        (
            "x = 3",
            (
                "the matrix has the unknown key 'x'; allowed are classes, default, max_age, max_attempts, "
                "max_retry_after, on_unknown, policies, rules, url, verify_backoff"
            ),
        ),
        ("max_attempts = 0", "the matrix: max_attempts is 0; allowed are whole numbers >= 1"),
        ("max_attempts = true", "the matrix: max_attempts is True; allowed are whole numbers >= 1"),
        ('max_attempts = "12"', "the matrix: max_attempts is '12'; allowed are whole numbers >= 1"),
        ("max_age = 0", "the matrix: max_age is 0; allowed are a duration > 0, and false for no limit"),
        ("max_age = -1.5", "the matrix: max_age is -1.5; allowed are finite durations > 0"),
        ("max_age = inf", "the matrix: max_age is inf; allowed are finite durations > 0"),
        ("max_age = nan", "the matrix: max_age is nan; allowed are finite durations > 0"),
        (
            "max_age = true",
            "the matrix: max_age is True; allowed are a duration > 0, and false for no limit",
        ),
        (
            'max_age = "soon"',
            "the matrix: max_age is 'soon'; allowed is text such as '500ms', '30s', '15m', '1h30m', '3d'",
        ),
        ("max_retry_after = 0", "the matrix: max_retry_after is 0; allowed are finite durations > 0"),
        (
            "max_retry_after = 2026-01-01",
            (
                "the matrix: max_retry_after is datetime.date(2026, 1, 1); allowed are seconds, a timedelta, or text such "
                "as '15m'"
            ),
        ),
        ('on_unknown = "verifyx"', "the matrix: on_unknown is 'verifyx'; did you mean 'verify'?"),
        (
            "on_unknown = 3",
            "the matrix: on_unknown is 3; allowed are dead_letter, discard, manual_review, mark_bounced, retry, verify",
        ),
        ("verify_backoff = []", "the matrix: verify_backoff: delays() needs at least one duration, for example"),
        ("classes = 3", "the matrix: classes is 3; allowed is a table"),
        ('[classes]\nmine = "sendr"', "the matrix: classes.mine is 'sendr'; did you mean 'sender'?"),
        (
            "[classes]\nmine = 3",
            (
                "the matrix: classes.mine is 3; allowed are content_policy, internal, permanent_recipient, sender, "
                "temporary_mailbox, throttling, transient_infrastructure, unmapped"
            ),
        ),
        (
            '[classes]\nMine = "sender"',
            "the matrix: classes.Mine: the error class is 'Mine'; allowed are lower-case letters, digits",
        ),
        (
            '[classes]\nsender = "sender"',
            "the matrix: classes.sender: 'sender' is the name of an error group, not of a class; use ErrorGroup('sender')",
        ),
        (
            '[classes]\nunknown = "sender"',
            "the matrix: classes.unknown: 'unknown' is a built-in class of the group",
        ),
        ("policies = 3", "the matrix: policies is 3; allowed is a table"),
        (
            "[policies.netwrk_timeout]",
            (
                "the matrix: policies.netwrk_timeout is neither a class nor a group; did you mean 'network_timeout'?; an "
                "application's own class is listed in [classes]"
            ),
        ),
        (
            "[policies.temporary_mailboxes]",
            "the matrix: policies.temporary_mailboxes is neither a class nor a group; did you mean 'temporary_mailbox'?",
        ),
        (
            '[classes]\ncard_declined = "sender"\n[policies.card_decline]',
            "the matrix: policies.card_decline is neither a class nor a group; did you mean 'card_declined'?",
        ),
        ("[policies]\nsender = 3", "the matrix: policies.sender is 3; allowed is a table"),
        ("[policies.sender]\nretries = 3", "the matrix: policies.sender has the unknown key 'retries'; did you mean"),
        (
            "[policies.sender]\nmax_retries = -1\nbackoff = 1",
            f"{WHERE}: max_retries is -1; allowed are whole numbers >= 0",
        ),
        ("[policies.sender]\nmax_retries = 1.5\nbackoff = 1", f"{WHERE}: max_retries is 1.5; allowed are whole"),
        (POLICY, f'{WHERE} has retries and no backoff; give it one, for example ["1m", "15m"]'),
        ('[policies.sender]\nthrottle = "yes"', f"{WHERE}.throttle is 'yes'; allowed are true and false"),
        ("[policies.sender]\naudit = 1", f"{WHERE}.audit is 1; allowed are true and false"),
        (
            '[policies.sender]\non_exhausted = "bounce"',
            f"{WHERE}.on_exhausted is 'bounce'; did you mean 'mark_bounced'?",
        ),
        (
            '[policies.sender]\non_exhausted = "retry"',
            f"{WHERE}.on_exhausted is 'retry'; allowed are dead_letter, discard, manual_review, mark_bounced",
        ),
        (f"{POLICY}backoff = [1, -1]", f"{WHERE}.backoff: a rung of delays() is -1; allowed are finite durations >= 0"),
        (f"{POLICY}backoff = []", f"{WHERE}.backoff: delays() needs at least one duration"),
        (f"{POLICY}backoff = true", f"{WHERE}.backoff: the delay of constant() is True; allowed are seconds"),
        (f"{POLICY}backoff = 'soon'", f"{WHERE}.backoff: the delay of constant() is 'soon'; allowed is text such as"),
        (
            f"{POLICY}backoff = {{ base = 1 }}",
            f"{WHERE}.backoff: kind is None; allowed are constant, decorrelated, delays, exponential, linear",
        ),
        (
            f"{POLICY}backoff = {{ kind = 'exponentail' }}",
            f"{WHERE}.backoff: kind is 'exponentail'; did you mean 'exponential'?",
        ),
        (f"{POLICY}backoff = {{ kind = 3 }}", f"{WHERE}.backoff: kind is 3; allowed are constant, decorrelated"),
        (
            f"{POLICY}backoff = {{ kind = 'exponential', bse = 1 }}",
            f"{WHERE}.backoff: a backoff of the kind 'exponential' has the unknown key 'bse'; did you mean 'base'?",
        ),
        (f"{POLICY}backoff = {{ kind = 'exponential' }}", f"{WHERE}.backoff: the kind 'exponential' needs 'base'"),
        (f"{POLICY}backoff = {{ kind = 'delays' }}", f"{WHERE}.backoff: the kind 'delays' needs 'delays'"),
        (
            f"{POLICY}backoff = {{ kind = 'delays', delays = '5s' }}",
            f"{WHERE}.backoff: delays is '5s'; allowed is a list of durations",
        ),
        (
            f"{POLICY}backoff = {{ kind = 'decorrelated', base = 1, jitter = 'full' }}",
            f"{WHERE}.backoff: a backoff of the kind 'decorrelated' has the unknown key 'jitter'",
        ),
        (
            f"{POLICY}backoff = {{ kind = 'exponential', base = 10, cap = 5 }}",
            f"{WHERE}.backoff: the cap of exponential() is 5 s, below its base of 10 s",
        ),
        (
            f"{POLICY}backoff = {{ kind = 'exponential', base = 10, factor = 0.5 }}",
            f"{WHERE}.backoff: the factor of exponential() is 0.5; allowed are finite numbers >= 1",
        ),
        (
            f"{POLICY}backoff = {{ kind = 'constant', delay = 1, jitter = 'half' }}",
            (
                f"{WHERE}.backoff: jitter is 'half'; allowed are 'none', 'full', 'equal', 'quarter', {{ upward = 0.1 }} and "
                "{ plus_minus = 0.1 }"
            ),
        ),
        (
            f"{POLICY}backoff = {{ kind = 'constant', delay = 1, jitter = {{ upward = 2 }} }}",
            f"{WHERE}.backoff: the share of upward() is 2; allowed are numbers from 0 to 1",
        ),
        (
            f"{POLICY}backoff = {{ kind = 'constant', delay = 1, jitter = {{ upward = 0.1, plus_minus = 0.1 }} }}",
            f"{WHERE}.backoff: jitter is {{'upward': 0.1, 'plus_minus': 0.1}}; allowed are 'none'",
        ),
        (
            f"{POLICY}backoff = {{ kind = 'constant', delay = 1, jitter = {{ full = 0.1 }} }}",
            f"{WHERE}.backoff: jitter is {{'full': 0.1}}; allowed are 'none'",
        ),
        (
            f"{POLICY}backoff = {{ kind = 'constant', delay = 1, jitter = [] }}",
            f"{WHERE}.backoff: jitter is []; allowed",
        ),
        ("default = 3", "the matrix: default is 3; allowed is a table"),
        ("[default]\nmax_retries = 2", "the matrix: default has retries and no backoff; give it one, for example"),
    ],
)
def test_error_names_the_place_the_value_and_what_is_allowed(text, message):
    """In the words of the file."""
    with pytest.raises(ConfigurationError) as caught:
        PolicyMatrix.from_toml(text)
    assert message == str(caught.value)[: len(message)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({3: 4}, "the matrix has the unknown key 3; allowed are classes, default"),
        ({"policies": {3: {}}}, "the matrix: policies.3 is neither a class nor a group; allowed are connection_error"),
        ({"policies": {ErrorGroup.SENDER: {None: 1}}}, "the matrix: policies.sender has the unknown key None; allowed"),
        ({"on_unknown": ["verify"]}, "the matrix: on_unknown is ['verify']; did you mean 'verify'?"),
        ({"classes": {"mine": ["sender"]}}, "the matrix: classes.mine is ['sender']; did you mean 'sender'?"),
    ],
)
def test_table_of_python_values_is_refused_as_clearly(table, message):
    """What TOML could not hold is named as well."""
    with pytest.raises(ConfigurationError) as caught:
        PolicyMatrix.from_dict(table)
    assert message == str(caught.value)[: len(message)]
