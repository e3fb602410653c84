"""Dead letters are put back by hand: plan, root cause, confirmation, progress, and two people at once."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.capabilities import require

require("httpx", "jinja2", "starlette")

from retrykit.backends import MemoryBackend
from retrykit.dashboard import Dashboard, Operator
from retrykit.dead_letter_queue import DeadLetterQueue
from retrykit.machines.redrive import RedriveState
from retrykit.testing import ManualClock
from retrykit.testing.conformance.dead_letters_samples import letter
from tests.dashboard.client import Browser, text_of
from tests.dashboard.town import Town

Browse = Callable[..., Browser]
TERMS = {"root_cause": "template repaired in release 42", "canary": "3", "tolerance": "10", "patience": "15m"}
PLAN = "/plan?q=campaign:spring"


def browser_of(browse: Browse, town: Town, name: str = "ada", **options: Any) -> Browser:
    return browse(Dashboard(town.backend, local=Operator(name, "operator"), **options))  # type: ignore[arg-type]


def confirmed(browser: Browser, **terms: str) -> Any:
    return browser.submit(browser.get(PLAN), "/plan/confirm", **{**TERMS, **terms})


def started(browser: Browser, **terms: str) -> Any:
    return browser.submit(confirmed(browser, **terms), "/plan/start")


def test_redrive_goes_from_plan_to_result(browse: Browse, town: Town) -> None:
    """A plan is confirmed with its root cause, runs in the background with nobody looking, and tells what came of it."""
    town.die(12)
    browser = browser_of(browse, town)
    assert "12 dead letters wait" in text_of(browser.get(PLAN).text)
    page = confirmed(browser)
    assert "Put 12 letters back?" in text_of(page.text) and [] == town.backend.redrives.jobs()
    answer = browser.submit(page, "/plan/start")
    (job,) = town.backend.redrives.jobs()
    assert (303, f"/redrive?id={job.id}") == (answer.status_code, answer.headers["location"])
    assert ("ada", TERMS["root_cause"], 12, 3) == (job.by, job.root_cause, job.planned, job.canary)
    town.is_repaired = True
    browser.runner.run(town.work_until(lambda: town.backend.redrives.get(job.id).state is RedriveState.DONE))
    assert 12 == len(town.sent) == len(set(town.sent))
    text = text_of(browser.get(answer.headers["location"]).text)
    assert "Done : 12 of 12" in text.replace("Done:", "Done :") and "Sent 12" in text
    assert "template repaired" in text_of(browser.get("/redrives").text)


def test_confirmation_says_what_may_be_sent_twice(browse: Browse, town: Town) -> None:
    """Whoever says that unknown outcomes were not sent reads it once more, and so does whoever looks later."""
    town.die(1)
    browser = browser_of(browse, town, run_redrives=False)
    assert "the provider is asked first" in text_of(confirmed(browser).text)
    page = confirmed(browser, not_sent="1", patience="1m")
    assert "You made sure that they were not sent" in text_of(page.text) and "1m with the canary" in text_of(page.text)
    shown = text_of(browser.get(browser.submit(page, "/plan/start").headers["location"]).text)
    assert "made sure that they were not sent" in shown and "1m with the canary" in shown


def test_redrive_that_is_left_to_others_says_so(browse: Browse, town: Town) -> None:
    """Where it does not run here, nobody is told that it goes on by itself."""
    town.die(1)
    browser = browser_of(browse, town, run_redrives=False)
    shown = text_of(browser.get(started(browser).headers["location"]).text)
    assert "This dashboard does not run it" in shown and "when this page is closed" not in shown
    (job,) = town.backend.redrives.jobs()
    assert f"retrykit dlq redrives {job.id} --run" in shown


def test_figures_of_a_redrive_that_was_stopped_say_when_they_were(browse: Browse, town: Town) -> None:
    """What was on its way then comes to an end without being counted; the letters are found in whatever state they are."""
    town.die(12)
    browser = browser_of(browse, town)
    address = started(browser).headers["location"]
    browser.wait_for(lambda: town.backend.redrives.jobs()[0].put_back == 3)
    fields = {"csrf": browser.csrf(), "id": town.backend.redrives.jobs()[0].id, "act": "stop", "why": "enough"}
    browser.post("/redrive", fields)
    browser.wait_for(lambda: town.backend.redrives.jobs()[0].lease is None)
    page = browser.get(address)
    assert "On their way 3" in text_of(page.text) and "As it was" in text_of(page.text)
    found = re.search(r'href="(/letters\?q=[^"]*)"', page.text.split("What was asked for")[1])
    assert found is not None and "state" not in found[1]
    assert "12 dead letters" in text_of(browser.get(html.unescape(found[1])).text)


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"root_cause": " "}, "root_cause is missing"),
        ({"canary": "-1"}, "canary is '-1'"),
        ({"canary": "x"}, "canary is 'x'"),
        ({"rate": "0"}, "rate is 0.0"),
        ({"rate": "nan"}, "rate is nan"),
        ({"rate": "fast"}, "rate is 'fast'"),
        ({"tolerance": "100"}, "0 to 99 percent"),
        ({"tolerance": ""}, "0 to 99 percent"),
        ({"tolerance": "inf"}, "0 to 99 percent"),
        ({"patience": "soon"}, "patience is 'soon'"),
        ({"max_redrives": "0"}, "max_redrives is '0'"),
        ({"cut_off": "now"}, "cut_off is 'now'"),
        ({"root_cause": "x" * 10_001}, "10,001 characters"),
    ],
)
def test_terms_that_are_not_allowed_are_refused_before_anybody_confirms(
    browse: Browse, town: Town, terms: dict[str, str], said: str
) -> None:
    """What is wrong is named, and nothing is begun."""
    town.die(1)
    answer = confirmed(browser_of(browse, town), **terms)
    assert 400 == answer.status_code and said in text_of(answer.text)


def test_plan_without_query_asks_for_one(browse: Browse, town: Town) -> None:
    """Every letter is put back only by whoever says so; then that holds to the end."""
    town.die(2)
    browser = browser_of(browse, town)
    assert "Which letters?" in text_of(browser.get("/plan").text)
    page = browser.submit(browser.get("/plan?everything=1"), "/plan/confirm", **TERMS)
    assert 303 == browser.submit(page, "/plan/start").status_code


def test_plan_that_has_changed_is_shown_once_more(browse: Browse, town: Town) -> None:
    """What was confirmed is what is put back: where somebody has discarded letters meanwhile, nothing is begun."""
    town.die(3)
    browser = browser_of(browse, town)
    page = confirmed(browser)
    town.backend.dead_letters.discard("spring-0#1", note="bea: not wanted")
    answer = browser.submit(page, "/plan/start")
    assert 409 == answer.status_code
    assert "3 letters were confirmed, 2 wait now" in text_of(answer.text)
    for name in ("spring-1#1", "spring-2#1"):
        town.backend.dead_letters.discard(name, note="bea: not wanted")
    assert 409 == browser.submit(page, "/plan/start", planned="0").status_code
    form = {**TERMS, "csrf": browser.csrf(), "q": "campaign:spring", "cut_off": "2100-01-01T00:00:00Z"}
    assert "somebody else has been here" in text_of(browser.post("/plan/confirm", form).text)
    assert [] == town.backend.redrives.jobs()


def test_letters_that_die_after_the_plan_are_not_put_back(browse: Browse) -> None:
    """The plan's cut-off holds, so what dies meanwhile is not counted."""
    clock = ManualClock()
    backend = MemoryBackend(clock=clock)
    backend.dead_letters.put(letter("early", dead_lettered_at=clock.now()))
    clock.advance(1)
    browser = browse(Dashboard(backend, clock=clock, run_redrives=False))
    page = browser.submit(browser.get("/plan?q=class:mailbox_full"), "/plan/confirm", **TERMS)
    backend.dead_letters.put(letter("late", dead_lettered_at=clock.now()))
    clock.advance(1)
    assert 303 == browser.submit(page, "/plan/start").status_code
    assert 1 == backend.redrives.jobs()[0].planned


def test_two_operators_at_once_start_one_redrive(browse: Browse, town: Town) -> None:
    """Of two who confirm the same letters one starts; the other is told who was first, and led there."""
    town.die(4)
    ada, bea = browser_of(browse, town, "ada", run_redrives=False), browser_of(browse, town, "bea", run_redrives=False)
    first, second = confirmed(ada), confirmed(bea)
    assert 303 == ada.submit(first, "/plan/start").status_code
    answer = bea.submit(second, "/plan/start")
    (job,) = town.backend.redrives.jobs()
    assert 409 == answer.status_code
    assert "'ada' is active" in text_of(answer.text) and f"/redrive?id={job.id}" in answer.text
    assert 409 == ada.submit(first, "/plan/start").status_code, "a button that is pressed twice starts one"


def test_redrive_is_paused_resumed_and_stopped_with_a_reason(browse: Browse, town: Town) -> None:
    """Each change has a reason and somebody's name in the audit log."""
    town.die(4)
    browser = browser_of(browse, town, run_redrives=False)
    address = started(browser).headers["location"]
    assert 400 == browser.submit(browser.get(address), "/redrive", why=" ").status_code
    for act, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped"), ("resume", "running")):
        page = browser.get(address)
        fields = {"csrf": browser.csrf(), "id": town.backend.redrives.jobs()[0].id, "act": act, "why": f"to {act}"}
        assert act.title() in page.text
        assert 303 == browser.post("/redrive", fields).status_code
        assert state == town.backend.redrives.jobs()[0].state.value
    done = [(each.by, each.action, each.why) for each in town.backend.redrives.audit()]
    assert ("ada", "redrive stopped", "to stop") in done and ("ada", "redrive paused", "to pause") in done


def test_redrive_that_a_dashboard_had_left_goes_on_when_it_is_looked_at(browse: Browse, town: Town) -> None:
    """A dashboard that ends gives its redrives back; the next one goes on with them."""
    town.die(4)
    first = Dashboard(town.backend)
    browser = browse(first)
    address = started(browser).headers["location"]
    browser.wait_for(lambda: 3 == town.backend.redrives.jobs()[0].put_back)
    browser.runner.run(first.aclose())
    assert town.backend.redrives.jobs()[0].lease is None
    second = browser_of(browse, town)
    assert 200 == second.get(address).status_code
    second.wait_for(lambda: town.backend.redrives.jobs()[0].lease is not None)


def test_redrives_are_listed_page_by_page(browse: Browse, town: Town) -> None:
    """More redrives than a page holds are on the next one."""
    queue = DeadLetterQueue(town.backend)
    for number in range(21):
        job = queue.redrive(queue.plan("campaign:none"), root_cause=f"cause {number}.", by="ada")
        queue.stop(job.id, by="ada", why="enough")
    browser = browser_of(browse, town)
    page = browser.get("/redrives")
    after = page.text.split("/redrives?after=")[1].split('"')[0]
    causes = {
        each.split(".")[0]
        for text in (page.text, browser.get(f"/redrives?after={after}").text)
        for each in text.split("cause ")[1:]
    }
    assert {str(number) for number in range(21)} <= causes
