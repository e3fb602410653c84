"""What SQLAlchemy raises around the exceptions of drivers."""

from __future__ import annotations

from tests.capabilities import require

require("sqlalchemy", "pymysql", "psycopg", "asyncpg", "loopback")

import asyncio
import sqlite3
from contextlib import closing

import pytest
import sqlalchemy
import sqlalchemy.exc
import sqlalchemy.ext.asyncio

from tests.libraries.servers import classified, closed_port, raised


@pytest.mark.parametrize("driver", ["mysql+pymysql", "postgresql+psycopg", "postgresql+asyncpg"])
def test_refused_connection_has_sent_nothing(driver):
    """Its own type says less than the driver's exception."""
    url = f"{driver}://x:x@127.0.0.1:{closed_port()}/x"

    async def main():
        engine = sqlalchemy.ext.asyncio.create_async_engine(url)
        try:
            await engine.connect()
        finally:
            await engine.dispose()

    is_async = driver.endswith("asyncpg")
    error = raised((lambda: asyncio.run(main())) if is_async else lambda: sqlalchemy.create_engine(url).connect())
    assert ("connection_error", "not_sent") == classified(error)


def test_locked_database_is_contention(tmp_path):
    """The code of SQLite stands on the inner exception."""
    path = tmp_path / "a.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0})
    with closing(sqlite3.connect(path)) as other, engine.connect() as connection:
        other.execute("begin exclusive")
        error = raised(lambda: connection.execute(sqlalchemy.text("create table a (b)")))
    engine.dispose()
    assert isinstance(error, sqlalchemy.exc.OperationalError)
    assert ("resource_contention", "unknown") == classified(error)


def test_wrong_statement_is_our_mistake():
    """It is an OperationalError as well."""
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection:
        error = raised(lambda: connection.execute(sqlalchemy.text("select * from nowhere")))
    engine.dispose()
    assert isinstance(error, sqlalchemy.exc.OperationalError)
    assert ("internal_error", "unknown") == classified(error)


def test_pool_without_a_free_connection_has_sent_nothing():
    """A TimeoutError that is not the builtin one."""
    engine = sqlalchemy.create_engine(
        "sqlite://", poolclass=sqlalchemy.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.05
    )
    with engine.connect():
        error = raised(engine.connect)
    engine.dispose()
    assert isinstance(error, sqlalchemy.exc.TimeoutError)
    assert ("resource_contention", "not_sent") == classified(error)


def test_wrong_use_is_our_mistake():
    """Nothing was sent to a database."""
    assert ("internal_error", "not_sent") == classified(raised(lambda: sqlalchemy.create_engine("nonsense")))
    assert "internal_error" == classified(sqlalchemy.exc.NoResultFound("none"))[0]


def test_driver_that_is_not_known_leaves_it_open():
    """Its error is unknown, unless the connection was found to be lost."""
    assert ("unknown", "unknown") == classified(sqlalchemy.exc.OperationalError("select", {}, ValueError("x")))
    lost = sqlalchemy.exc.OperationalError("select", {}, ValueError("x"), connection_invalidated=True)
    assert ("connection_error", "unknown") == classified(lost)
