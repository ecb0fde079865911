"""Which resources no node of a cluster has."""

from __future__ import annotations

import asyncio
import sys
import threading
from types import SimpleNamespace

import pytest

from genmix.cluster.resources import Resources
from genmix.cluster.room import living_nodes, missing, why_not_started

NODES = [{"CPU": 8.0}, {"CPU": 2.0, "GPU": 1.0, "memory": 1e9}]


@pytest.mark.parametrize("needs", [{}, {"num_cpus": 8}, {"num_cpus": 2, "num_gpus": 0.5}])
def test_nothing_is_missing_if_one_node_has_everything(needs: dict[str, float]) -> None:
    assert missing(Resources.model_validate(needs), NODES) is None


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ({"num_gpus": 2}, "it needs 2 GPUs, and no node of the cluster has more than 1"),
        ({"num_cpus": 8.5}, "it needs 8.5 CPUs, and no node of the cluster has more than 8"),
        (
            {"num_cpus": 4, "num_gpus": 1},
            "it needs 4 CPUs and 1 GPU, and no node of the cluster has both",
        ),
    ],
)
def test_what_no_node_has_is_named(needs: dict[str, float], reason: str) -> None:
    assert missing(Resources.model_validate(needs), NODES) == reason


def test_without_nodes_nothing_is_known() -> None:
    assert missing(Resources.model_validate({"num_gpus": 2}), []) is None


def test_a_cluster_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(nodes=never.wait))
    monkeypatch.setattr("genmix.cluster.room.PATIENCE", 0.01)
    assert living_nodes() == []
    found = asyncio.run(why_not_started("arm 'a'", 3.0, Resources()))  # does not join the thread
    assert found.startswith("arm 'a' did not start within 3 seconds; check")
    never.set()


def test_the_resources_of_living_nodes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [{"Alive": True, "Resources": NODES[0]}, {"Alive": False, "Resources": NODES[1]}]
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(nodes=lambda: nodes))
    assert living_nodes() == [NODES[0]]
