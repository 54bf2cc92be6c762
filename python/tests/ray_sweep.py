"""Sweeps on three Ray nodes of this machine; a worker is killed, then a node: `ray_sweep.py OUT EXPERIMENT`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import ray
from conftest import LIMIT
from ray.cluster_utils import Cluster

import longhaul
from longhaul import fleet
from longhaul.progress import Progress


def workers() -> list[int]:
    """The Ray workers that are measuring: the parents of haul."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"lab\0run\0" in (entry / "cmdline").read_bytes():
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if b"ray::" in Path(f"/proc/{parent}/cmdline").read_bytes():
                    found.append(parent)
        except OSError:
            continue
    return found


def main(out: str, experiment: str) -> None:
    memory = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster: Any = Cluster(initialize_head=True, head_node_args=memory)
    said = []
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        grid = {"network.rtt": ["2ms", "4ms", "6ms", "8ms"]}
        try:
            fleet.sweep(experiment, grid, out)
        except longhaul.LonghaulError as error:
            if "ray start --resources" in str(error):
                said.append("no node without the resource")
        nodes = [cluster.add_node(**memory, resources={"longhaul": 1}) for _ in range(2)]
        cluster.wait_for_nodes()

        def kill(progress: Progress) -> None:
            if progress.done == 1 and len(said) == 1:
                ends = time.monotonic() + LIMIT
                while not (victims := workers()) and time.monotonic() < ends:
                    time.sleep(0.02)
                os.kill(victims[0], signal.SIGKILL)
                said.append("killed a worker and")
            elif progress.done == 2 and len(said) == 2:
                cluster.remove_node(nodes[0], allow_graceful=False)
                said.append("a node")

        run = fleet.sweep(experiment, grid, out, workload="list", samples=1, plain=True, progress=kill)
        print(f"{said[0]}; {' '.join(said[1:])}; {len(run.cells)} cells")
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
