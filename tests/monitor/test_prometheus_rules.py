"""The rules for Prometheus: made from the same constants, of metrics that there are, and sound in form."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess

import pytest

from retrykit.errors import ConfigurationError
from retrykit.monitor import (
    DEFAULT_RULES,
    BacklogGrows,
    BreakerOpens,
    DeadLettersJump,
    ErrorClassDominates,
    prometheus_rules,
)
from retrykit.monitor.prometheus_rules import METRICS
from tests.monitor.test_signals import Own

PROMTOOL = os.environ.get("RETRYKIT_PROMTOOL") or shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not here: give RETRYKIT_PROMTOOL its path")

OTHERS = (
    DeadLettersJump(window="10m", ratio=2.5, minimum=7, chance=1e-3, hold=0),
    ErrorClassDominates(share=0.5, ignore=["grey-listed", "a.b"], clear_after=0),
    BreakerOpens(primary=["ses.eu", 'odd "\\ name']),
    BacklogGrows(window="6m", growth=3, minimum=5, fall=0.5),
    Own(),
)
LINE = re.compile(
    r'groups:|- name: \w+|  rules:|  - (?:record: [\w:]+|alert: \w+)|    expr: ".*"|    (?:for|keep_firing_for): [\d.]+s'
    r'|    labels: \{severity: (?:page|ticket)\}|    annotations:|      (?:summary|description|runbook): ".*"'
)


def expressions(text):
    """Return the expressions, by the name of the record or alert."""
    found = re.findall(r'  - (?:record|alert): (\S+)\n    expr: (".*")', text)
    return {name: json.loads(expression) for name, expression in found}


@pytest.mark.parametrize("rules", [DEFAULT_RULES, OTHERS])
def test_every_line_is_of_a_form_that_is_known(rules):
    """Texts are quoted as JSON, which YAML reads alike; brackets close."""
    text = prometheus_rules(rules)
    assert [] == [line for line in text.splitlines() if not LINE.fullmatch(line)]
    for line in text.splitlines():
        if line.rstrip().endswith('"') and ': "' in line:
            json.loads(line.partition(": ")[2])
    for expression in expressions(text).values():
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", expression)
        for opening, closing in ("()", "{}", "[]"):
            assert outside.count(opening) == outside.count(closing)


def test_every_rule_of_ours_has_an_alert_of_its_name_and_severity():
    """One of an application has no form for Prometheus."""
    names = re.findall("- alert: (.*)", prometheus_rules((*DEFAULT_RULES, Own())))
    assert [
        "RetrykitDeadLettersJump",
        "RetrykitErrorClassDominates",
        "RetrykitBreakerOpens",
        "RetrykitBacklogGrows",
        "RetrykitUnknownCode",
        "RetrykitPoisonMessage",
    ] == names


def test_constants_are_those_of_the_rules():
    """Windows, thresholds and times."""
    text = prometheus_rules(OTHERS)
    said = expressions(text)
    assert "[600s]" in said["retrykit:died"]
    assert "retrykit:died >= 7 and retrykit:died >= 2.5 * retrykit:died:expected" in said["RetrykitDeadLettersJump"]
    assert said["RetrykitDeadLettersJump"].endswith("<= -6.9078)")
    assert 'error_class!~"a\\\\.b|grey\\\\-listed"' in said["retrykit:failed:by_class"]
    assert "> 0.5 and on() retrykit:attempts >= 50" in said["RetrykitErrorClassDominates"]
    assert "[120s] offset 240s" in said["retrykit:waiting:before"]
    assert ">= 5 and retrykit:waiting >= 3 *" in said["RetrykitBacklogGrows"]
    assert "for: 30s" in text
    assert "keep_firing_for: 600s" in text


def test_metrics_of_another_namespace_are_asked_for():
    """As the exporter was told."""
    text = prometheus_rules(namespace="mail")
    assert "retrykit" not in "".join(expressions(text).values())
    assert "mail_messages_total" in text


@pytest.mark.parametrize("namespace", ["", "a b", "a-b", "5mail", "mail:eu", "ä", "x" * 65, 5, None])
def test_namespace_that_prometheus_would_not_take_is_refused(namespace):
    """By name, before anything is printed."""
    with pytest.raises(ConfigurationError, match=r"^namespace is .*; allowed are 1 to 64 letters, digits and '_'"):
        prometheus_rules(namespace=namespace)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([BreakerOpens(), BreakerOpens(primary=["a"])], "two rules are called 'breaker-opens'; give each a name"),
        ([BreakerOpens] * 2, "a rule is the class BreakerOpens; allowed is a rule made of it: BreakerOpens()"),
        (None, "rules is None; allowed is a list of rules, for example [DeadLettersJump()]"),
        (BreakerOpens(), "rules is BreakerOpens("),
        ("abc", "rules is 'abc'; allowed is a list of rules"),
        ([5], "a rule is 5; allowed are rules such as DeadLettersJump()"),
        (
            [DeadLettersJump(name="a.b"), DeadLettersJump(name="a_b")],
            "the rules 'a.b' and 'a_b' would both be retrykit:a_b:died in Prometheus; give one another name: name=",
        ),
        (
            [BreakerOpens(name="open-now"), BreakerOpens(name="Open-Now")],
            "the rules 'open-now' and 'Open-Now' would both be RetrykitOpenNow in Prometheus",
        ),
    ],
)
def test_rules_that_cannot_be_told_apart_or_are_none_are_refused(rules, message):
    """Prometheus itself would refuse the file, or mix their figures up."""
    with pytest.raises(ConfigurationError) as caught:
        prometheus_rules(rules)
    assert str(caught.value).startswith(message)


TWICE = (DeadLettersJump(), DeadLettersJump(name="letters-by-the-hour", window="30m", minimum=3))


def test_two_rules_of_one_kind_keep_their_figures_apart():
    """Each under its own name, the usual one as ever."""
    said = expressions(prometheus_rules(TWICE))
    assert ["[300s]", "[1800s]"] == [
        re.search(r"\[\d+s\]", said[f"{prefix}:died"])[0] for prefix in ("retrykit", "retrykit:letters_by_the_hour")
    ]
    assert "retrykit:letters_by_the_hour:died >= 3" in said["RetrykitLettersByTheHour"]
    assert "letters_by_the_hour" not in said["RetrykitDeadLettersJump"]


@pytest.mark.skipif(
    importlib.util.find_spec("retrykit.exporters") is None, reason="this version has no exporter for Prometheus"
)
def test_every_metric_that_is_asked_for_is_exported():
    """Under that name, with those labels."""
    from retrykit.exporters.gauges import BackendGauges
    from retrykit.exporters.metrics import METRICS as COUNTED

    counters = {f"{metric.name.replace('.', '_')}_total": set(metric.labels) for metric in COUNTED}
    gauges = {gauge.name.replace(".", "_"): {gauge.label} for gauge in BackendGauges.gauges}
    exported = {**counters, **gauges, "breaker_state": {"breaker", "state"}}
    assert set(METRICS.values()) <= set(exported)
    used = "".join(expressions(prometheus_rules(OTHERS)).values()) + "".join(expressions(prometheus_rules()).values())
    for name, labels in re.findall(r"retrykit_(\w+)\{([^}]*)\}", used):
        assert set(re.findall(r"(\w+)[=!]~?\"", labels)) <= exported[name]
    assert {"error_class"} <= exported["attempts_failed_total"]
    assert {"provider", "code"} <= exported["unknown_codes_total"]


@needs_promtool
@pytest.mark.parametrize("rules", [DEFAULT_RULES, OTHERS, TWICE])
def test_promtool_finds_nothing_wrong(tmp_path, rules):
    """The real one."""
    file = tmp_path / "rules.yml"
    file.write_text(prometheus_rules(rules), encoding="utf-8")
    subprocess.run([PROMTOOL, "check", "rules", file], check=True, timeout=50)


SERIES = """
rule_files: [rules.yml]
evaluation_interval: 30s
tests:
- interval: 30s
  input_series:
  - series: 'retrykit_messages_total{disposition="sent",instance="a"}'
    values: '0+1000x240 240000+SENTx60 240000+1000x60'
  - series: 'retrykit_messages_total{disposition="dead_lettered",instance="a"}'
    values: '0+4x240 964+DEADx60'
  - series: 'retrykit_attempts_failed_total{error_class="dns_failure",instance="a"}'
    values: '0+10x240 2410+FAILEDx60'
  - series: 'retrykit_breaker_state{breaker="ses",state="open",instance="a"}'
    values: '0x240 OPENx60'
  - series: 'retrykit_retry_queue_messages{state="waiting",instance="a"}'
    values: '100x240 100+WAITINGx60'
  - series: 'retrykit_quarantined_total{instance="a"}'
    values: '0x240 POISONx60'
  - series: 'retrykit_unknown_codes_total{provider="ses",code="X1",instance="a"}'
    values: '_x240 CODEx60'
  alert_rule_test:
"""
ALERTS = {
    "RetrykitDeadLettersJump": {"DEAD": "200"},
    "RetrykitErrorClassDominates": {"FAILED": "900"},
    "RetrykitBreakerOpens": {"OPEN": "1"},
    "RetrykitBacklogGrows": {"WAITING": "100", "SENT": "300"},
    "RetrykitUnknownCode": {"CODE": "1"},
    "RetrykitPoisonMessage": {"POISON": "1"},
}
QUIET = {"SENT": "1000", "DEAD": "4", "FAILED": "10", "OPEN": "0", "WAITING": "0", "POISON": "0", "CODE": "_"}


@needs_promtool
@pytest.mark.parametrize("firing", [None, *ALERTS])
def test_prometheus_fires_for_an_incident_and_is_silent_otherwise(tmp_path, firing):
    """Its own engine, over series in which one thing is wrong from the second hour on."""
    (tmp_path / "rules.yml").write_text(prometheus_rules(), encoding="utf-8")
    text = SERIES
    for name, value in (QUIET | ALERTS.get(firing, {})).items():
        text = text.replace(name, value) if not text.count(f"+{name}x") else text.replace(f"+{name}x", f"+{value}x")
    lines = [
        f"  - {{eval_time: {at}, alertname: {name}, exp_alerts: []}}"
        for name in ALERTS
        for at in ("110m", "130m")
        if (name, at) != (firing, "130m")
    ]
    (tmp_path / "test.yml").write_text(text + "\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(
        [PROMTOOL, "test", "rules", "test.yml"], check=False, cwd=tmp_path, capture_output=True, timeout=50
    )
    assert (0, "SUCCESS") == (done.returncode, (done.stdout + done.stderr).decode().split()[-1])
    if firing is not None:
        lines.append(f"  - {{eval_time: 130m, alertname: {firing}, exp_alerts: []}}")
        (tmp_path / "test.yml").write_text(text + "\n".join(lines) + "\n", encoding="utf-8")
        done = subprocess.run(
            [PROMTOOL, "test", "rules", "test.yml"], check=False, cwd=tmp_path, capture_output=True, timeout=50
        )
        assert done.returncode == 1, "it does not fire"
