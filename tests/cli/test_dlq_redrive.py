"""`retrykit dlq plan`, `redrive`, `redrives`, `edit`, `discard`, `export`, `import` and `audit`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from retrykit.deadletter import Capture
from retrykit.message import Message
from tests.cli.dead_letters import Post
from tests.deadletter.ciphers import XorCipher


@pytest.fixture
def post(tmp_path: Path) -> Post:
    """Six letters of a campaign."""
    made = Post(tmp_path)
    made.die(6)
    return made


def whole(_: Message) -> bool:
    return False


REDRIVE = ("dlq", "redrive", "campaign:spring", "--root-cause", "release 42 repairs it")


def test_plan_says_what_would_be_done_and_with_which_command(post: Post) -> None:
    """Nothing is changed; the command has the cut-off of the plan."""
    result = post.run("dlq", "plan", "campaign:spring")
    assert 0 == result.exit_code, result.output
    assert "6 dead letters that wait" in result.stdout
    assert "retrykit dlq redrive campaign:spring --cut-off 20" in result.stdout
    assert 6 == post.json("dlq", "plan", "campaign:spring")["count"]
    assert 6 == post.json("dlq", "stats")["quarantined"]


def test_redrive_puts_back_what_was_planned(post: Post) -> None:
    """A canary, then the rest; it ends with what came of it, and stands in the audit log."""
    cut_off = post.json("dlq", "plan", "campaign:spring")["cut_off"]
    post.die(1, "late")
    post.broken = whole
    with post.working():
        job = post.json(*REDRIVE, "--cut-off", cut_off, "--canary", "2", "--yes")
    assert ("done", 6, 6, 0, "ada") == tuple(job[name] for name in ("state", "put_back", "succeeded", "failed", "by"))
    assert 6 == len(post.sent)
    actions = [(entry["by"], entry["action"]) for entry in post.lines("dlq", "audit")]
    assert {("ada", "redrive started"), ("retrykit", "canary passed"), ("retrykit", "redrive done")} == set(actions)
    assert "release 42 repairs it" in post.run("dlq", "audit").stdout
    assert [job["id"]] == [each["id"] for each in post.lines("dlq", "redrives")]
    assert job["id"] in post.run("dlq", "redrives").stdout


def test_redrive_whose_canary_fails_exits_with_1(post: Post) -> None:
    """Resumed when the cause is repaired at last, it begins with a canary again."""
    with post.working():
        result = post.run(*REDRIVE, "--canary", "2", "--yes")
    assert 1 == result.exit_code, result.output
    assert "the canary failed: 2 of 2 messages failed again" in result.stdout
    job_id = post.lines("dlq", "redrives")[0]["id"]
    assert "running" == post.json("dlq", "redrives", job_id, "--resume", "--why", "repaired")["state"]
    post.broken = whole
    with post.working():
        assert ("done", 4) == tuple(
            post.json("dlq", "redrives", job_id, "--run")[name] for name in ("state", "succeeded")
        )


def test_redrive_asks_before_it_begins(post: Post) -> None:
    """No is no; yes goes on; detached it is left to a runner."""
    refused = post.run(*REDRIVE, answer="n\n")
    assert (1, "Put 6 letters back?") == (refused.exit_code, refused.stderr[:19])
    assert [] == post.lines("dlq", "redrives")
    unattended = post.run(*REDRIVE)
    assert (2, True) == (unattended.exit_code, "elsewhere say --yes" in unattended.stderr)
    taken = post.run(*REDRIVE, "--detach", answer="y\n")
    assert 0 == taken.exit_code, taken.output
    (job,) = post.lines("dlq", "redrives", "--active")
    assert ("running", 0, 6) == (job["state"], job["put_back"], job["planned"])
    conflict = post.run(*REDRIVE, "--yes")
    assert (2, True) == (conflict.exit_code, "is active and may be at the same letters" in conflict.stderr)


def test_redrive_is_paused_and_stopped_from_another_terminal(post: Post) -> None:
    """With who and why."""
    post.run(*REDRIVE, "--yes", "--detach")
    job_id = post.lines("dlq", "redrives")[0]["id"]
    paused = post.json("dlq", "redrives", job_id, "--pause", "--why", "lunch")
    assert ("paused", "lunch") == (paused["state"], paused["note"])
    again = post.run("dlq", "redrives", job_id, "--pause", "--why", "dinner")
    assert (1, True) == (again.exit_code, f"the redrive {job_id} is paused; there is nothing to pause" in again.stderr)
    both = post.run("dlq", "redrives", job_id, "--pause", "--stop", "--why", "x")
    assert (2, True) == (both.exit_code, "give one of --pause and --stop, not both" in both.stderr)
    assert "paused: lunch" in post.run("dlq", "redrives", job_id).stdout
    resumed = post.run("dlq", "redrives", job_id, "--resume", "--why", "back")
    assert f"a Redriver of your service goes on with it, or: retrykit dlq redrives {job_id} --run" in resumed.stderr
    assert "stopped" == post.json("dlq", "redrives", job_id, "--stop", "--why", "enough")["state"]
    assert [] == post.lines("dlq", "redrives", "--active")


def test_edited_letter_is_put_back_as_repaired(post: Post, tmp_path: Path) -> None:
    """From a file; the audit log has the difference."""
    file = tmp_path / "new.json"
    file.write_text('{"n": 0, "first_name": "Ada"}')
    edited = post.json("dlq", "edit", "spring-0#1", "--payload", str(file), "--attribute", "recipient=ada@example.org",
                       "--attribute", "provider", "--why", "the name was missing")  # fmt: skip
    assert {"campaign_id": "spring", "recipient": "ada@example.org"} == edited["edit"]["attributes"]
    assert '{"n":0}' == edited["original_payload"]
    said = post.run("dlq", "show", "spring-0#1").stdout
    assert "repaired by ada" in said
    assert {"ada@example.org", "is left out"} == {
        line.split(maxsplit=2)[2] for line in said.splitlines() if line.startswith("repaired attribute.")
    }
    assert '{"n": 0, "first_name": "Ada"}' in said
    assert '+  "first_name": "Ada",' in post.run("dlq", "audit").stdout
    post.broken = lambda message: b"first_name" not in message.body
    with post.working():
        job = post.json("dlq", "redrive", "message:spring-0", "--root-cause", "repaired by hand", "--yes")
    assert ("done", 1) == (job["state"], job["succeeded"])


def test_letter_is_edited_in_an_editor(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left without saving, nothing is changed."""
    shown: list[str] = []

    def saved(text: str, extension: str) -> str | None:
        shown.append(text)
        return '{"n": 1}' if len(shown) == 1 else None

    monkeypatch.setattr("click.edit", saved)
    assert "spring-0#1 is repaired" in post.run("dlq", "edit", "spring-0#1", "--editor", "--why", "x").stdout
    assert '{\n  "n": 0\n}' == shown[0]
    left = post.run("dlq", "edit", "spring-0#1", "--editor", "--why", "x")
    assert (2, True) == (left.exit_code, "nothing was changed" in left.stderr)
    post.is_attended = False
    unattended = post.run("dlq", "edit", "spring-0#1", "--editor", "--why", "x")
    assert (2, True) == (unattended.exit_code, "give --payload FILE" in unattended.stderr)


CIPHER = XorCipher()


def test_encrypted_letters_are_put_back_and_repaired_with_their_cipher(post: Post) -> None:
    """Named as an object of the application's; without it they are left alone."""
    post.capture = Capture(encrypt=CIPHER)
    post.die(2, "secret")
    named = ("--cipher", f"{__name__}:CIPHER")
    assert 1 == len(post.json("dlq", "plan", "campaign:secret")["warnings"])
    assert [] == post.json("dlq", "plan", "campaign:secret", *named)["warnings"]
    refused = post.run("dlq", "edit", "secret-0#1", "--attribute", "a=b", "--why", "x")
    assert (2, True) == (refused.exit_code, "no cipher was given" in refused.stderr)
    edited = post.json("dlq", "edit", "secret-0#1", "--attribute", "a=b", "--why", "x", *named)
    assert ("xor", False) == (edited["edit"]["cipher"], '"n"' in edited["edit"]["payload"])
    post.broken = whole
    with post.working():
        job = post.json("dlq", "redrive", "campaign:secret", "--root-cause", "x", "--yes", *named)
    assert ("done", 2) == (job["state"], job["succeeded"])


def test_masked_letter_is_repaired_whole(post: Post, tmp_path: Path) -> None:
    """With a payload and all its attributes."""
    post.capture = Capture(mask=["n"])
    post.die(1, "masked")
    file = tmp_path / "new.json"
    file.write_text('{"n": 0}')
    refused = post.run("dlq", "edit", "masked-0#1", "--payload", str(file), "--why", "x")
    assert (2, True) == (refused.exit_code, "give a whole payload and all attributes" in refused.stderr)
    edited = post.json("dlq", "edit", "masked-0#1", "--payload", str(file), "--attribute", "a=b", "--why", "x")
    assert ({"a": "b"}, '{"n": 0}') == (edited["edit"]["attributes"], edited["edit"]["payload"])


def test_discarded_letters_are_asked_for_and_stay(post: Post) -> None:
    """With why."""
    assert 1 == post.run("dlq", "discard", "message:spring-1", "--why", "test", answer="n\n").exit_code
    assert {"discarded": 1} == post.json("dlq", "discard", "message:spring-1", "--why", "a test", "--yes")
    assert "1 letter discarded\n" == post.run("dlq", "discard", "message:spring-2", "--why", "a test", "--yes").stdout
    assert (4, 2) == tuple(post.json("dlq", "stats")[name] for name in ("quarantined", "discarded"))
    nothing = post.run("dlq", "discard", "message:spring-1", "--why", "again", "--yes")
    assert (2, True) == (nothing.exit_code, "there is nothing to discard" in nothing.stderr)


def test_exported_letters_are_imported_elsewhere(post: Post, tmp_path: Path) -> None:
    """Whole; broken lines are told by their number, and the rest is imported."""
    file = tmp_path / "letters.jsonl"
    assert "6 letters exported to" in post.run("dlq", "export", "campaign:spring", "--to", str(file)).stderr
    assert file.read_text() == post.run("dlq", "export").stdout
    other = Post(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    other.backend().deliveries.counts()
    file.write_text(file.read_text() + "no letter\n")
    result = other.run("dlq", "import", str(file))
    assert 1 == result.exit_code
    assert "line 7 was passed over" in result.stderr
    assert "6 letters imported, 0 were there already, 1 broken line" in result.stdout
    assert 6 == other.json("dlq", "import", str(file))["present"]
    entries = [(each["by"], each["action"], each["result"]) for each in other.lines("dlq", "audit")]
    assert ("ada", "imported", "6 imported, 0 were there already, 1 lines broken") in entries
    assert post.run("dlq", "export").stdout == other.run("dlq", "export").stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("plan",), "the query has no condition and takes in every dead letter"),
        (("plan", "state:resolved"), "allowed are quarantined ones"),
        (("redrive", "campaign:spring"), "Missing option '--root-cause'"),
        (("redrive", "campaign:none", "--root-cause", "x", "--yes"), "there is nothing to put back"),
        (("redrive", "campaign:spring", "--root-cause", " ", "--yes"), "root_cause has 0 characters"),
        (("redrive", "campaign:spring", "--root-cause", "x", "--cut-off", "soon"), "--cut-off is 'soon'"),
        (("redrives", "none"), "there is no redrive 'none'"),
        (("redrives", "--pause"), "--pause needs the id of a redrive"),
        (("redrives", "none", "--stop"), "--stop needs --why"),
        (("edit", "spring-0#1", "--why", "x"), "give --payload FILE or --editor"),
        (("edit", "none#1", "--attribute", "a=b", "--why", "x"), "there is no dead letter 'none#1'"),
        (("discard", "campaign:spring"), "Missing option '--why'"),
        (("plan", "campaign:spring", "--cipher", "nonsense:x"), "cannot be imported"),
        (("plan", "campaign:spring", "--cipher", f"{__name__}:whole"), "allowed is an object with name, encrypt"),
    ],
)
def test_wrong_call_exits_with_2_and_says_why(post: Post, args: tuple[str, ...], said: str) -> None:
    """And changes nothing."""
    result = post.run("dlq", *args)
    assert 2 == result.exit_code, result.output
    assert said in " ".join(result.stderr.split())
    assert 6 == post.json("dlq", "stats")["quarantined"]


def test_everything_is_put_back_only_when_it_is_said(post: Post) -> None:
    """Never a blind redrive of the whole queue."""
    assert 6 == json.loads(post.run("dlq", "plan", "--everything", "--json").stdout)["count"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [("missing", "is not there, so it cannot go"), ("=x", "has no name"), ("campaign_id=spring", "are so already")],
)
def test_edit_that_repairs_nothing_is_refused(post: Post, changed: str, said: str) -> None:
    """Nothing is changed."""
    result = post.run("dlq", "edit", "spring-0#1", "--attribute", changed, "--why", "x")
    assert (2, True) == (result.exit_code, said in " ".join(result.stderr.split()))
    assert post.json("dlq", "show", "spring-0#1")["edit"] is None


def test_editor_that_fails_is_told(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is changed, and the exit code says that it could not run."""
    monkeypatch.setenv("EDITOR", "false")
    monkeypatch.delenv("VISUAL", raising=False)
    result = post.run("dlq", "edit", "spring-0#1", "--editor", "--why", "x")
    assert (2, True) == (result.exit_code, "give --payload FILE, or set EDITOR" in " ".join(result.stderr.split()))


def test_command_that_a_plan_prints_means_the_same_letters_later(post: Post) -> None:
    """A window stands still in it, and it names the backend and the whole queue as they were given."""
    said = post.run("dlq", "plan", "since:2h", "campaign:spring", "--url", post.url).stdout
    command = next(line for line in said.splitlines() if "dlq redrive" in line)
    assert re.search(r"redrive 'campaign:spring since:\d{4}-\d\d-\d\dT[\d:.]+Z' --cut-off \S+ --url sqlite:", command)
    said = post.run("dlq", "plan", "--everything").stdout
    assert "redrive --cut-off" in said
    assert "--everything --root-cause" in said
    assert "--url" not in said, "it was not given"


def test_export_leaves_what_it_does_not_own(post: Post, tmp_path: Path) -> None:
    """A neighbour stays, a link leads where it led, a pipe is written into."""
    real, link, neighbour = (tmp_path / name for name in ("real.jsonl", "link", "real.jsonl.new"))
    real.write_text("old")
    neighbour.write_text("precious")
    link.symlink_to(real)
    assert 0 == post.run("dlq", "export", "message:spring-0", "--to", str(link)).exit_code
    assert ("precious", True) == (neighbour.read_text(), link.is_symlink())
    assert "spring-0" in real.read_text()
    assert {"real.jsonl", "link", "real.jsonl.new"} == {
        each.name for each in tmp_path.iterdir() if "jsonl" in str(each) or each == link
    }
    assert 0 == post.run("dlq", "export", "--to", "/dev/null").exit_code
    assert Path("/dev/null").is_char_device()
    result = post.run("dlq", "export", "--to", str(tmp_path / "absent" / "x"))
    assert (2, True) == (
        result.exit_code,
        "cannot be used: No such file or directory" in " ".join(result.stderr.split()),
    )


def test_runner_that_was_interrupted_lets_another_go_on_at_once(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it prints can be typed."""

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("retrykit.cli.dlq_redrive.time.sleep", interrupt)
    left = post.run(*REDRIVE, "--yes")
    assert "it goes on with: retrykit dlq redrives" in left.stderr
    job_id = post.lines("dlq", "redrives")[0]["id"]
    assert 1 == (again := post.run("dlq", "redrives", job_id, "--run")).exit_code
    assert "is being run by" not in again.stderr
