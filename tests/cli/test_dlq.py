"""`retrykit dlq`, as a person on call uses it to look."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from tests.cli.dead_letters import Post


@pytest.fixture
def post(tmp_path: Path) -> Post:
    """Seven letters of two campaigns."""
    made = Post(tmp_path)
    made.die(5, "spring")
    made.die(2, "autumn")
    return made


def words(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line.strip()]


def test_list_shows_the_letters_of_a_query(post: Post) -> None:
    """The one put last first; what a terminal would obey is spelled out, and markup is text."""
    result = post.run("dlq", "list", "campaign:spring", "class:rendering_failure", "--limit", "2")
    assert 0 == result.exit_code, result.output
    heading, first, second = words(result.stdout)
    assert ["letter", "died", "class"] == heading[:3]
    assert ("spring-4#1", "spring-3#1") == (first[0], second[0])
    assert "\x1b" not in result.stdout
    assert r"no first_name\x1b[2J [red]" in result.stdout
    assert "there are more: --cursor " in result.stderr


def test_list_goes_on_where_it_ended(post: Post) -> None:
    """By the cursor that it printed; that of another query is refused."""
    seen: list[str] = []
    cursor: list[str] = []
    while True:
        result = post.run("dlq", "list", "campaign:spring", "--limit", "2", "--json", *cursor)
        seen += [each["id"] for each in map(json.loads, result.stdout.splitlines())]
        if "--cursor" not in result.stderr:
            break
        cursor = result.stderr.split()[-2:]
    assert [f"spring-{n}#1" for n in (4, 3, 2, 1, 0)] == seen
    assert [f"spring-{n}#1" for n in (2, 1)] == [
        each["id"]
        for each in post.lines("dlq", "list", "campaign:spring", "since:1h", "--limit", "2", "--cursor", relative(post))
    ], "a window that is told from now on goes on as it was at first"
    refused = post.run("dlq", "list", "campaign:autumn", *cursor)
    assert (2, True) == (refused.exit_code, "is of another query" in refused.stderr)


def relative(post: Post) -> str:
    """Return the cursor of a first page in a window that is told from now on."""
    return post.run("dlq", "list", "campaign:spring", "since:1h", "--limit", "2").stderr.split()[-1]


def test_show_spells_out_names_as_well(post: Post) -> None:
    """An attribute's name is data too."""
    backend = post.backend()
    letter = backend.dead_letters.get("spring-0#1")
    assert letter is not None
    backend.dead_letters.put(attrs.evolve(letter, id="odd#1", attributes={"a\x1b[31m": "v"}))
    backend.close()
    shown = post.run("dlq", "show", "odd#1").stdout
    assert "\x1b" not in shown
    assert r"attribute.a\x1b[31m" in shown


def test_show_tells_all_of_one_letter(post: Post) -> None:
    """Its fields, its tries, its payload, and where its message stands now."""
    result = post.run("dlq", "show", "spring-0#1")
    assert 0 == result.exit_code, result.output
    assert {("error_class", "rendering_failure"), ("state", "quarantined"), ("attribute.provider", "ses")} <= {
        (line[0], line[1]) for line in words(result.stdout) if len(line) > 1
    }
    assert '{"n":0}' in result.stdout
    assert "done, generation 1" in result.stdout
    assert "\x1b" not in result.stdout
    assert "spring-0" == post.json("dlq", "show", "spring-0#1")["message_id"]
    missing = post.run("dlq", "show", "none#1")
    assert (2, True) == (missing.exit_code, "there is no dead letter 'none#1'" in missing.stderr)


def test_top_counts_by_class_code_provider_and_campaign(post: Post) -> None:
    """Or by one of them."""
    found = post.json("dlq", "top")
    assert (7, {"rendering_failure": 7}, {"ses": 7}, {"spring": 5, "autumn": 2}) == (
        found["total"],
        found["class"],
        found["provider"],
        found["campaign"],
    )
    assert {"total": 5, "campaign": {"spring": 5}} == post.json("dlq", "top", "campaign:spring", "--by", "campaign")
    assert ["spring", "5", "71.4%"] in words(post.run("dlq", "top").stdout)


def test_groups_have_one_cause_and_what_people_noted(post: Post) -> None:
    """Owner and note; a muted one is not listed."""
    (group,) = post.lines("dlq", "groups")
    assert (7, {"quarantined": 7}, 5) == (group["total"], group["counts"], len(group["letter_ids"]))
    noted = post.run("dlq", "note", group["fingerprint"], "--owner", "mail team", "--note", "release 41", "--mute")
    assert "7 letters; owner mail team; release 41" == noted.stdout.strip()
    assert [] == post.lines("dlq", "groups")
    noted = post.json("dlq", "note", group["fingerprint"], "--mute", "2999-01-01")
    assert ("mail team", True, "2999-01-01T00:00:00.000Z") == tuple(
        noted[name] for name in ("owner", "muted", "muted_until")
    )
    assert ["mail team"] == [each["owner"] for each in post.lines("dlq", "groups", "--muted")]
    post.run("dlq", "note", group["fingerprint"], "--unmute")
    assert 1 == len(post.lines("dlq", "groups"))
    post.run("dlq", "note", group["fingerprint"], "--mute", "2030-01-01")
    assert [] == post.lines("dlq", "groups")
    assert "mail team" in post.run("dlq", "groups", "--muted").stdout


def test_stats_say_how_deep_and_how_fast(post: Post) -> None:
    """As gauges."""
    found = post.json("dlq", "stats")
    assert (7, 7, 7) == (found["quarantined"], found["died_last_hour"], found["total"])
    assert ["7", "quarantined"] in words(post.run("dlq", "stats").stdout)


def test_watch_prints_a_line_each_time(post: Post) -> None:
    """Where there is no terminal."""
    result = post.run("dlq", "watch", "--every", "0.1", "--times", "2")
    first, second = result.stdout.splitlines()
    assert first.endswith("7 waiting, 7 in the last hour; rendering_failure 7")
    assert second > first


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("list", "clas:x"), "did you mean 'class'"),
        (("list", "state:lost"), "state is 'lost'"),
        (("list", "since:2h", "until:3h"), "allowed is a since before until"),
        (("groups", "--cursor", "nonsense"), "cursor"),
        (("note", "v1:none", "--owner", "me"), "there is no dead letter with the fingerprint 'v1:none'"),
        (("note", "v1:none", "--mute", "--unmute"), "not both"),
    ],
)
def test_wrong_call_exits_with_2_and_says_why(post: Post, args: tuple[str, ...], said: str) -> None:
    """The nearest that is allowed is told."""
    result = post.run("dlq", *args)
    assert 2 == result.exit_code, result.output
    assert said in " ".join(result.stderr.split())


def test_runbook_is_filled_in_from_the_store(post: Post) -> None:
    """Who is at fault, what to pause, what to look at, and how to put it back."""
    post.run("pause", "campaign:spring", "--reason", "bad template")
    result = post.run("runbook")
    assert 0 == result.exit_code, result.output
    said = " ".join(result.stdout.split())
    fingerprint = post.lines("dlq", "groups")[0]["fingerprint"]
    for expected in (
        "7 messages died since 1h, 7 in a day; 7 wait.",
        "campaign:spring is paused by ada: bad template",
        "rendering_failure: 7 of 7 (100%) - code or data of ours",
        "$ retrykit pause campaign:spring --reason",
        "$ retrykit dlq show 'autumn-1#1'",
        f'$ retrykit dlq redrive fingerprint:{fingerprint} --root-cause "..."',
        "$ retrykit resume campaign:spring",
    ):
        assert expected in said
    steps = post.json("runbook", "--since", "2h")["steps"]
    assert 6 == len(steps)


def test_runbook_of_an_empty_store_says_what_would_be_done(tmp_path: Path) -> None:
    """Nothing died."""
    post = Post(tmp_path)
    post.backend().deliveries.counts()
    assert "nothing died" in post.run("runbook").stdout


def test_pauses_are_made_listed_and_ended(post: Post) -> None:
    """With who, why and until when."""
    assert (
        "campaign:spring is paused until it is resumed" in post.run("pause", "campaign:spring", "--reason", "x").stdout
    )
    post.run("pause", "provider:ses", "--reason", "outage", "--for", "2h")
    first, second = post.lines("pauses")
    assert ("campaign:spring", "x", "ada", None) == tuple(first[name] for name in ("key", "reason", "by", "until"))
    assert second["until"] is not None
    assert ["campaign:spring", "ada"] in [line[:2] for line in words(post.run("pauses").stdout)]
    paused = post.json("pause", "tenant:acme", "--reason", "z", "--until", "2999-01-01")
    assert ("tenant:acme", "z", "2999-01-01T00:00:00.000Z") == tuple(
        paused[name] for name in ("key", "reason", "until")
    )
    assert {"key": "tenant:acme", "was_paused": True} == post.json("resume", "tenant:acme")
    assert (0, 1) == (post.run("resume", "provider:ses").exit_code, post.run("resume", "provider:ses").exit_code)
    post.run("resume", "campaign:spring", "--why", "repaired")
    assert "nothing is paused" in post.run("pauses").stdout
    told = [(each["by"], each["action"], each["subject"], each["why"]) for each in post.lines("dlq", "audit")]
    assert ("ada", "paused", "campaign:spring", "x") in told
    assert ("ada", "resumed", "campaign:spring", "repaired") in told


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("pause", "spring", "--reason", "x"), "the key of a pause is 'spring'"),
        (("pause", "campaign:spring"), "Missing option '--reason'"),
        (("pause", "campaign:spring", "--reason", "x", "--for", "2h", "--until", "2030-01-01"), "not both"),
        (("pause", "campaign:spring", "--reason", "x", "--for", "soon"), "--for is 'soon'"),
        (("pause", "campaign:spring", "--reason", "x", "--until", "2020-01-01"), "allowed is an end in the future"),
        (("pause", "campaign:spring", "--reason", " "), "reason has 0 characters"),
        (("pause", "campaign:spring", "--reason", "x", "--by", " "), "by is ' '"),
    ],
)
def test_pause_that_cannot_be_is_refused(post: Post, args: tuple[str, ...], said: str) -> None:
    """And nothing is paused."""
    result = post.run(*args)
    assert 2 == result.exit_code
    assert said in " ".join(result.stderr.split())
    assert [] == post.lines("pauses")
