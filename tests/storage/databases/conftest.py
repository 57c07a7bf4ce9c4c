"""The server that all tests of databases use."""

from collections.abc import Iterator

import pytest

from tests.storage.databases.servers import postgres


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a PostgreSQL server without a password."""
    with postgres() as address:
        yield address
