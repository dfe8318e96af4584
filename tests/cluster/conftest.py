"""Three servers for all tests here, whole again after each; and a siege of them that several tests look back on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.cluster.servers import Cluster
from tests.cluster.siege import Aftermath, besieged
from tests.run.conftest import House


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Elected once, as that takes seconds."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    made.start()
    yield made
    made.close()


@pytest.fixture
def cluster(servers: Cluster) -> Iterator[Cluster]:
    """All three of them up."""
    yield servers
    servers.start()


@pytest.fixture(scope="session")
def aftermath(servers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aftermath]:
    """What is left when each of the three was killed, one after the other, under everybody's fire."""
    house = House(tmp_path_factory.mktemp("house"))
    yield asyncio.run(besieged(servers, house))
    house.close()
