"""A program: run a study on two Ray nodes of this machine, and remove one of them in mid-run."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

import genmix as gx
from tests.support.ray_runs import study, told, wait_for


def main(folder: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4})
    second = cluster.add_node(num_cpus=4)
    cluster.wait_for_nodes()
    ray.init(cluster.address, log_to_driver=False)
    resources = {"resources": {"num_cpus": 1}}
    retries = {"attempts": 20, "first_wait": 0.2, "longest_wait": 2.0, "suspend_after": 20}
    encoder = {"kind": "callable", "function": "arms:embed", **resources}
    path = study(
        folder, 150, 0.05, of_arms=resources, encoder=encoder, engine="ray", retries=retries
    )

    def is_used() -> bool:
        nodes = [trace.read_text() for trace in (folder / "traces").glob("*")]
        return second.node_id in nodes and told(folder / "run") >= 20

    def remove() -> None:
        wait_for(is_used)
        cluster.remove_node(second, allow_graceful=False)

    remover = threading.Thread(target=remove)
    remover.start()
    run = gx.run(path, folder / "run")
    remover.join()
    ray.shutdown()
    cluster.shutdown()
    print(json.dumps({"status": run.status}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
