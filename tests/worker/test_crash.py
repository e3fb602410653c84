"""Whatever nobody caught ends the process, once, in time, with a status that is not zero: each in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time

import pytest

from retrykit.errors import ConfigurationError
from retrykit.worker import exit_on_crash
from tests import capabilities

START = """
import asyncio, gc, logging, os, sys, threading, time
from retrykit.worker import exit_on_crash
logging.basicConfig(level="INFO", format="%(levelname)s %(name)s %(message)s", stream=sys.stderr)
say = lambda text: lambda: print(text, flush=True)
forever = threading.Event().wait
"""


def run(program, *, within=20.0):
    """Run a program that begins as START does, and return how it ended."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", START + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    done.took = time.monotonic() - began
    return done


CRASHES = {
    "in the main thread": "raise KeyError('lost')",
    "in the main thread beside one that works on": """
        threading.Thread(target=forever).start()
        raise KeyError("lost")
        """,
    "in a thread": """
        def work():
            raise KeyError("lost")
        threading.Thread(target=work, name="consumer").start()
        forever()
        """,
    "in a thread, of a thread that is waited for": """
        def work():
            raise KeyError("lost")
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        print("limped on")
        """,
    "in a thread started by the lowest means": """
        import _thread
        def work():
            raise KeyError("lost")
        _thread.start_new_thread(work, ())
        forever()
        """,
    "in asyncio.run": """
        async def main():
            raise KeyError("lost")
        asyncio.run(main())
        """,
    "in an asyncio task that nobody holds": """
        async def work():
            raise KeyError("lost")
        async def main():
            crash.watch()
            asyncio.create_task(work(), name="consumer")
            await asyncio.sleep(60)
        asyncio.run(main())
        """,
    "in an asyncio task that somebody holds": """
        async def work():
            raise KeyError("lost")
        async def main():
            held = crash.watch_task(asyncio.create_task(work(), name="consumer"))
            await asyncio.sleep(60)
        asyncio.run(main())
        """,
    "in a callback of a loop": """
        def work():
            raise KeyError("lost")
        async def main():
            crash.watch(asyncio.get_running_loop())
            asyncio.get_running_loop().call_soon(work)
            await asyncio.sleep(60)
        asyncio.run(main())
        """,
    "in a destructor": """
        class Held:
            def __del__(self):
                raise KeyError("lost")
        Held()
        forever()
        """,
    "in a group of errors": """
        raise BaseExceptionGroup("several", [KeyboardInterrupt(), KeyError("lost")])
        """,
}


@pytest.mark.parametrize("program", CRASHES.values(), ids=CRASHES)
def test_exit_on_crash_with_an_error_that_nobody_caught_cleans_up_and_exits(program):
    """The error is printed as ever, then clean-ups run in their order, a line says what ended the process, and the status is 70."""
    install = "crash = exit_on_crash(cleanup=[say('first'), say('second')])\n"
    done = run(install + textwrap.dedent(program))
    assert (70, "first\nsecond\n") == (done.returncode, done.stdout)
    assert "KeyError: 'lost'" in done.stderr
    assert "CRITICAL retrykit.worker " in done.stderr
    assert "was caught by nobody; exiting with status 70, clean-ups: 2" in done.stderr


def test_exit_on_crash_names_the_thread_and_the_task_of_a_crash():
    """The line in the log says where it was: by the name that the application gave."""
    thread, task = (
        run("crash = exit_on_crash()\n" + textwrap.dedent(CRASHES[key]))
        for key in ("in a thread", "in an asyncio task that somebody holds")
    )
    assert "KeyError in thread 'consumer' was caught by nobody" in thread.stderr
    assert "KeyError in task 'consumer' was caught by nobody" in task.stderr


@pytest.mark.skipif(not capabilities.is_present("trio"), reason="needs trio")
def test_exit_on_crash_with_a_failing_trio_task_exits():
    """Trio brings every error to the main thread."""
    done = run(
        """
        import trio
        exit_on_crash(cleanup=[say("cleaned")])
        async def work():
            raise KeyError("lost")
        async def main():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work)
                await trio.sleep_forever()
        trio.run(main)
        """
    )
    assert (70, "cleaned\n") == (done.returncode, done.stdout)


def test_exit_on_crash_with_a_clean_up_that_hangs_and_one_that_raises_runs_the_next():
    """Each has its share of the limit, and the log says which of them failed and which was left behind."""
    done = run(
        """
        def bad():
            raise OSError("no clean-up")
        exit_on_crash(cleanup=[forever, bad, say("cleaned")], limit=3)
        raise KeyError("lost")
        """
    )
    assert (70, "cleaned\n") == (done.returncode, done.stdout)
    assert re.search(r"the clean-up .* was not done within 0\.[4-8]\d* s and is left behind", done.stderr)
    assert "the clean-up <function bad" in done.stderr
    assert "OSError: no clean-up" in done.stderr


def test_exit_on_crash_with_nothing_but_hanging_parts_ends_within_its_limit():
    """Neither an earlier hook, a clean-up, a handler of the log nor an output that nobody reads keeps the process."""
    done = run(
        """
        class Stuck(logging.Handler):
            def emit(self, record): forever()
            def flush(self): forever()
        class Full:
            write = len
            def flush(self): forever()
        logging.getLogger("retrykit").addHandler(Stuck())
        sys.stdout = Full()
        sys.excepthook = lambda *error: forever()
        exit_on_crash(cleanup=[forever, forever], limit=0.5, exit_code=3)
        raise KeyError("lost")
        """
    )
    assert 3 == done.returncode
    assert done.took < 10, "far beyond the limit of half a second"


def test_exit_on_crash_with_a_clean_up_that_stops_all_of_python_is_ended_with_tracebacks():
    """One that never lets another thread run is ended from outside of Python, and the output shows where it was."""
    done = run(
        """
        import re
        def stuck():
            sys.setswitchinterval(1000)
            re.match("(a|aa)+$", "a" * 200 + "b")
        exit_on_crash(cleanup=[stuck], limit=0.5)
        raise KeyError("lost")
        """
    )
    assert 1 == done.returncode
    assert " in stuck" in done.stderr


def test_exit_on_crash_with_a_second_crash_reports_it_and_exits_once():
    """A thread that dies during the clean-up is printed by the hook that was there; the clean-ups run once."""
    done = run(
        """
        def again():
            raise ValueError("second")
        def clean():
            thread = threading.Thread(target=again)
            thread.start()
            thread.join()
            print("cleaned", flush=True)
        exit_on_crash(cleanup=[clean])
        raise KeyError("first")
        """
    )
    assert (70, "cleaned\n") == (done.returncode, done.stdout)
    assert "ValueError: second" in done.stderr
    assert 1 == done.stderr.count("CRITICAL")


def test_exit_on_crash_with_a_main_thread_that_ends_well_meanwhile_exits_as_crashed():
    """What ends the process is waited for: a status of 0 would hide the crash."""
    done = run(
        """
        begun = threading.Event()
        def clean():
            begun.set()
            time.sleep(0.2)
            print("cleaned", flush=True)
        exit_on_crash(cleanup=[clean])
        def work():
            raise KeyError("lost")
        threading.Thread(target=work, daemon=True).start()
        begun.wait()
        """
    )
    assert (70, "cleaned\n") == (done.returncode, done.stdout)


def test_exit_on_crash_lets_a_clean_up_use_the_loop_of_a_failed_task():
    """The loop goes on for as long as the clean-ups take."""
    done = run(
        """
        async def hand_back():
            print("handed back", flush=True)
        async def work():
            raise KeyError("lost")
        async def main():
            loop = asyncio.get_running_loop()
            crash = exit_on_crash()
            crash.add(lambda: asyncio.run_coroutine_threadsafe(hand_back(), loop).result())
            crash.watch_task(asyncio.create_task(work()))
            await asyncio.sleep(60)
        asyncio.run(main())
        """
    )
    assert (70, "handed back\n") == (done.returncode, done.stdout)


def test_exit_on_crash_calls_the_earlier_hooks_first():
    """A reporter that was installed before hears of each kind of crash, in the thread that crashed."""
    for hook, program in {
        "sys.excepthook": "raise KeyError('lost')",
        "threading.excepthook": "threading.Thread(target=lambda: {}['lost']).start()\nforever()",
        "sys.unraisablehook": CRASHES["in a destructor"],
    }.items():
        install = f"{hook} = lambda *_: print('reported', flush=True)\nexit_on_crash(cleanup=[say('cleaned')])\n"
        done = run(install + textwrap.dedent(program))
        assert (70, "reported\ncleaned\n") == (done.returncode, done.stdout), hook
    done = run(
        """
        async def work():
            raise KeyError("lost")
        async def main():
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: print("reported", flush=True))
            exit_on_crash(cleanup=[say("cleaned")]).watch()
            asyncio.create_task(work())
            await asyncio.sleep(60)
        asyncio.run(main())
        """
    )
    assert (70, "reported\ncleaned\n") == (done.returncode, done.stdout)


def test_exit_on_crash_with_an_earlier_hook_that_fails_exits_all_the_same():
    """Its own error is printed, and nothing else changes."""
    done = run(
        """
        def hook(*error):
            raise OSError("no reporter")
        sys.excepthook = hook
        exit_on_crash(cleanup=[say("cleaned")])
        raise KeyError("lost")
        """
    )
    assert (70, "cleaned\n") == (done.returncode, done.stdout)
    assert "OSError: no reporter" in done.stderr


def test_exit_on_crash_flushes_logs_and_standard_output(tmp_path):
    """What a handler held back is written, and what was printed without a flush is not lost."""
    path = tmp_path / "log"
    done = run(
        f"""
        from logging.handlers import MemoryHandler
        held = MemoryHandler(1000, flushLevel=100, target=logging.FileHandler({str(path)!r}))
        logging.getLogger("app").addHandler(held)
        exit_on_crash()
        logging.getLogger("app").info("remembered")
        print("printed")
        raise KeyError("lost")
        """
    )
    assert (70, "printed\n") == (done.returncode, done.stdout)
    assert "remembered\n" == path.read_text()


NO_CRASHES = {
    "sys.exit": (5, "sys.exit(5)"),
    "sys.exit in a thread": (
        0,
        """
        thread = threading.Thread(target=lambda: sys.exit(5))
        thread.start()
        thread.join()
        """,
    ),
    "Ctrl-C": (-2, "raise KeyboardInterrupt"),
    "a task that is awaited": (
        0,
        """
        async def work():
            raise KeyError("caught")
        async def main():
            crash.watch()
            try:
                await asyncio.create_task(work())
            except KeyError:
                pass
        asyncio.run(main())
        """,
    ),
    "tasks that end well or are cancelled": (
        0,
        """
        async def main():
            task = crash.watch_task(asyncio.create_task(asyncio.sleep(60)))
            await crash.watch_task(asyncio.create_task(asyncio.sleep(0)))
            task.cancel()
            await asyncio.wait([task])
        asyncio.run(main())
        """,
    ),
    "a connection's trouble": (
        0,
        """
        async def main():
            crash.watch()
            told = {"message": "handshake failed", "exception": OSError("by the client"), "transport": None}
            asyncio.get_running_loop().call_exception_handler(told)
            asyncio.get_running_loop().call_exception_handler({"message": "a task was destroyed"})
        asyncio.run(main())
        """,
    ),
    "an unraisable error, where that is not asked for": (
        0,
        """
        crash.uninstall()
        exit_on_crash(unraisable=False, cleanup=[say("cleaned")])
        class Held:
            def __del__(self):
                raise KeyError("lost")
        Held()
        """,
    ),
    "the end of the interpreter": (
        0,
        """
        class Held:
            def __del__(self):
                raise KeyError("lost")
        sys.modules["held"] = Held()
        """,
    ),
    "an error after the end of the block": (
        1,
        """
        with crash:
            pass
        raise KeyError("lost")
        """,
    ),
    "errors after uninstall, under a hook of somebody else's": (
        1,
        """
        ours = sys.excepthook, threading.excepthook
        sys.excepthook = lambda *error: ours[0](*error)
        threading.excepthook = lambda arguments: ours[1](arguments)
        crash.uninstall()
        thread = threading.Thread(target=lambda: {}["lost"])
        thread.start()
        thread.join()
        raise KeyError("lost")
        """,
    ),
}


@pytest.mark.parametrize(("status", "program"), NO_CRASHES.values(), ids=NO_CRASHES)
def test_exit_on_crash_with_what_is_no_crash_changes_nothing(status, program):
    """The process ends as it would have, and no clean-up runs."""
    done = run("crash = exit_on_crash(cleanup=[say('cleaned')])\n" + textwrap.dedent(program))
    assert (status, "") == (done.returncode, done.stdout)
    assert "CRITICAL" not in done.stderr


def test_exit_on_crash_as_a_block_that_an_error_leaves_exits():
    """The hooks stay where they are until it is known that nobody catches it."""
    done = run(
        """
        try:
            with exit_on_crash(cleanup=[say("cleaned")]):
                raise OSError("caught")
        except OSError:
            print("caught", flush=True)
        raise KeyError("lost")
        """
    )
    assert (70, "caught\ncleaned\n") == (done.returncode, done.stdout)


@pytest.mark.skipif(not capabilities.is_present("fork"), reason="needs fork")
def test_exit_on_crash_in_a_forked_child_exits_without_the_clean_ups_of_its_parent():
    """What the parent holds is not the child's to hand back; the parent goes on, and its own crash cleans up."""
    done = run(
        """
        exit_on_crash(cleanup=[say("cleaned")])
        child = os.fork()
        if not child:
            raise ValueError("in the child")
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        raise KeyError("in the parent")
        """
    )
    assert (70, "70\ncleaned\n") == (done.returncode, done.stdout)


@pytest.mark.skipif(not capabilities.is_present("fork"), reason="needs fork")
def test_exit_on_crash_in_a_child_forked_during_a_crash_exits_too():
    """The child does not wait for the thread that ends its parent, which it does not have."""
    done = run(
        """
        def clean():
            child = os.fork()
            if not child:
                threading.Thread(target=lambda: {}["lost"]).start()
                forever()
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        exit_on_crash(cleanup=[clean])
        raise KeyError("in the parent")
        """
    )
    assert (70, "70\n") == (done.returncode, done.stdout)


def test_exit_on_crash_without_threads_left_cleans_up_where_it_is():
    """The crash may be that no thread can be started."""
    done = run(
        """
        exit_on_crash(cleanup=[say("cleaned")])
        def start(self):
            raise RuntimeError("can't start new thread")
        threading.Thread.start = start
        raise KeyError("lost")
        """
    )
    assert (70, "cleaned\n") == (done.returncode, done.stdout)
    assert "KeyError: 'lost'" in done.stderr


def test_exit_on_crash_with_a_listener_that_raises_is_not_concerned():
    """It is logged with its name, no message is lost, and the worker works on."""
    done = run(
        """
        from retrykit import Dispatcher, open_backend
        def broken(event):
            raise KeyError("in a listener")
        exit_on_crash(cleanup=[say("cleaned")])
        backend = open_backend("memory://")
        dispatcher = Dispatcher(lambda message, key: None, backend=backend, on_event=[broken])
        for number in range(3):
            print(dispatcher.handle({"id": f"m-{number}"}).kind.value, backend.claims.get(f"m-{number}").disposition.value)
        """
    )
    assert (0, "sent sent\n" * 3) == (done.returncode, done.stdout)
    assert 3 == done.stderr.count("ERROR retrykit.events the listener <function broken")
    assert "failed on MessageHandled" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"limit": 0}, "limit is 0"),
        ({"exit_code": 0}, "exit_code is 0; allowed are whole numbers from 1 to 255"),
        ({"exit_code": 256}, "exit_code is 256"),
        ({"exit_code": True}, "exit_code is True"),
        ({"exit_code": "1"}, "exit_code is '1'"),
        ({"cleanup": print}, "allowed is a list of functions"),
        ({"cleanup": 5}, "cleanup is 5"),
        ({"cleanup": ["close"]}, "a clean-up is 'close'; allowed are functions without arguments"),
    ],
)
def test_exit_on_crash_with_a_value_that_is_not_allowed_names_it_and_installs_nothing(arguments, words):
    """It is refused before a hook is touched."""
    before = sys.excepthook
    with pytest.raises(ConfigurationError, match=words):
        exit_on_crash(**arguments)
    assert before is sys.excepthook


def test_exit_on_crash_with_a_coroutine_function_as_clean_up_is_refused():
    """Nobody would await it."""

    async def close():
        return None

    with pytest.raises(ConfigurationError, match=r"asyncio\.run_coroutine_threadsafe"):
        exit_on_crash(cleanup=[close])


def test_exit_on_crash_installed_twice_is_refused_and_once_more_after_uninstall_is_not():
    """Two would each end the process; the first one takes further clean-ups."""
    hooks = sys.excepthook, sys.unraisablehook
    with exit_on_crash() as crash:
        assert sys.excepthook != hooks[0]
        with pytest.raises(ConfigurationError, match="installed already; add clean-ups to the handle"):
            exit_on_crash()
        assert print is crash.add(print)
        crash.uninstall()
        assert hooks == (sys.excepthook, sys.unraisablehook)
        with exit_on_crash():
            crash.uninstall()  # again, and of another: nothing
            assert sys.excepthook != hooks[0]
    assert hooks == (sys.excepthook, sys.unraisablehook)
