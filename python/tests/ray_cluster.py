"""Explains captures on three Ray nodes of this machine, one of which dies: `ray_cluster.py OUT CAPTURE…`."""

from __future__ import annotations

import sys
from typing import Any

import ray
from ray.cluster_utils import Cluster

from longhaul import fleet
from longhaul.progress import Progress


def main(out: str, captures: list[str]) -> None:
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80_000_000})
    try:
        nodes = [cluster.add_node(num_cpus=1, object_store_memory=80_000_000) for _ in range(2)]
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        removed = 0

        def kill(progress: Progress) -> None:
            nonlocal removed
            # All nodes are at work by then.
            if progress.done >= 9 and not removed:
                removed = 1
                cluster.remove_node(nodes[0], allow_graceful=False)

        done = fleet.explain(captures, out, batch_captures=3, progress=kill)
        print(f"explained {done.explained}, failed {done.failed}, nodes removed {removed}")
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
