"""`open_backend`: a backend by its URL."""

from __future__ import annotations

import os
import sys
import traceback

import pytest

from retrykit.backends import MemoryBackend, open_async_backend, open_backend
from retrykit.backends.doctor import diagnose
from retrykit.backends.sqlite import SQLiteBackend
from retrykit.errors import ConfigurationError, MissingExtraError

ALLOWED = (
    "allowed are 'memory://', 'sqlite:///relative/file.db', 'sqlite:////absolute/file.db', 'postgresql://host/database' and "
    "'redis://host:6379/0'"
)


def test_memory_url_opens_memory(clock):
    """With the clock given."""
    backend = open_backend("memory://", clock=clock)
    assert type(backend) is MemoryBackend
    clock.advance("1h")
    assert clock.now() == backend.claims.claim("k", owner="me").record.opened_at
    backend.close()


@pytest.mark.parametrize("name", ["mail.db", "with space.db", "a?b#c.db", "größe.db"])
def test_sqlite_url_opens_the_file_relative_or_absolute(tmp_path, monkeypatch, clock, name):
    """Three slashes and a relative path, four and an absolute one; escapes are undone."""
    monkeypatch.chdir(tmp_path)
    escaped = name.replace(" ", "%20").replace("?", "%3F").replace("ö", "%C3%B6")
    for url in (f"sqlite:///{escaped}", f"sqlite:///{tmp_path}/{escaped}", f"sqlite:///{tmp_path}/./{escaped}"):
        backend = open_backend(url, clock=clock)
        assert type(backend) is SQLiteBackend
        backend.claims.claim("k", owner="me")
        assert backend.claims.get("k").opened_at == clock.now()
        backend.close()
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", f"the URL is ''; {ALLOWED}"),
        ("mail.db", f"the URL is 'mail.db'; {ALLOWED}"),
        ("sqlite:mail.db", f"the URL is 'sqlite:mail.db'; {ALLOWED}"),
        ("sqlite://", f"the URL 'sqlite://' names no file; {ALLOWED}"),
        ("sqlite:///", f"the URL 'sqlite:///' names no file; {ALLOWED}"),
        ("sqlite://mail.db", f"the URL 'sqlite://mail.db' names no file; {ALLOWED}"),
        ("mysql://host/db", f"the URL 'mysql://host/db' names the unknown backend 'mysql'; {ALLOWED}"),
        ("sqlite:///:memory:", "the path is ':memory:'; name a file, or use MemoryBackend()"),
    ],
)
@pytest.mark.parametrize("opener", [open_backend, open_async_backend], ids=["sync", "async"])
def test_url_that_names_no_backend_is_refused(opener, url, message):
    """The error shows the forms that are allowed."""
    with pytest.raises(ConfigurationError) as caught:
        opener(url)
    assert message == str(caught.value)


@pytest.mark.parametrize("opener", [open_backend, open_async_backend], ids=["sync", "async"])
def test_path_in_place_of_a_url_is_refused(opener, path):
    """The error says what takes a path."""
    with pytest.raises(ConfigurationError) as caught:
        opener(path)
    assert f"the URL is {path!r}; {ALLOWED}; for a path use SQLiteBackend(path)" == str(caught.value)


@pytest.mark.parametrize("opener", [open_backend, open_async_backend, diagnose])
@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:secret@host/db",
        "mysql://me:secret/secret?secret#secret@secret@host/db",
        "mysql://host/db?password=secret",
        "me:secret@host",
        "redis:me:secret@host",
        "me:secret@redis://host",
    ],
)
def test_url_that_is_refused_shows_no_password(opener, url):
    """Whatever is wrong with it, in whichever part the password stands."""
    with pytest.raises(ConfigurationError) as caught:
        opener(url)
    assert "secret" not in "".join(traceback.format_exception_only(caught.value))
    assert "secret" not in repr(caught.value.__cause__)


@pytest.mark.parametrize("opener", [open_backend, open_async_backend])
def test_bytes_in_place_of_a_url_are_refused_by_their_type(opener):
    """They may hold a password as well."""
    with pytest.raises(ConfigurationError, match=r"^the URL is of the type bytes; allowed are"):
        opener(b"redis://me:secret@host")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://me:secret@host/db", "the URL 'mysql://...' names the unknown backend 'mysql'"),
        ("sqlite://me:secret@host", "the URL 'sqlite://...' names no file"),
        ("sqlite:///mail.db?key=secret", "the URL 'sqlite://...' has options"),
        ("me:secret@host", "the URL is '...'"),
    ],
)
@pytest.mark.parametrize("opener", [open_backend, open_async_backend])
def test_url_that_may_hold_a_password_is_shown_by_how_it_begins(opener, url, message):
    """So that somebody who made it of settings sees which one it was."""
    with pytest.raises(ConfigurationError) as caught:
        opener(url)
    assert str(caught.value).startswith(f"{message}; {ALLOWED}")


def test_sqlite_url_with_options_is_refused():
    """They would silently become part of the file's name."""
    with pytest.raises(ConfigurationError, match=r"has options; .*; for options use SQLiteBackend\(path, \.\.\.\)$"):
        open_backend("sqlite:///mail.db?synchronous=normal")


@pytest.mark.parametrize("opener", [open_backend, open_async_backend], ids=["sync", "async"])
def test_postgresql_url_without_its_extra_says_how_to_install_it(opener, monkeypatch):
    """Nothing else of retrykit needs the driver."""
    for name in [name for name in sys.modules if name.startswith("retrykit.backends.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'retrykit\[postgres\]'"):
        opener("postgresql://host/database")
