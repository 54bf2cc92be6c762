"""Where blocks are measured: on this machine, or on the nodes of a Ray cluster. A machine measures one at a time."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection
from typing import Any, Protocol

from ..errors import LonghaulError
from ..export import need
from .measure import Block, Measured, Measurement
from .on_ray import cancel

__all__ = ["Machines", "RayNodes", "ThisMachine"]

#: Ray's resource of which a measurement takes one, and a node has one.
RESOURCE = "longhaul"


class Machines(Protocol):
    """Measures blocks."""

    def start(self, block: Block, avoid: Collection[str] = ()) -> None:
        """Measures a block when a machine is free, if possible none of those to avoid."""

    def next(self) -> tuple[Block, Measured]:
        """Waits for the next result. There must be one under way."""
        ...

    def close(self) -> None:
        """Ends what is under way, and its haul."""


class ThisMachine:
    """Measures one block after another in this process, whose interrupt ends haul."""

    def __init__(self, measurement: Measurement) -> None:
        self._measurement = measurement
        self._waiting: deque[Block] = deque()

    def start(self, block: Block, avoid: Collection[str] = ()) -> None:
        """Measures it after all others: another time may be a better one."""
        self._waiting.append(block)

    def next(self) -> tuple[Block, Measured]:
        """Measures a block."""
        block = self._waiting.popleft()
        return block, self._measurement.measure(block)

    def close(self) -> None:
        """Nothing is under way between two calls."""


class RayNodes:
    """Measures blocks on the nodes that have the resource. Ray repeats a task whose worker or node died."""

    def __init__(self, measurement: Measurement, retries: int) -> None:
        ray = need("ray", "ray")
        if not ray.is_initialized():
            ray.init(resources={RESOURCE: 1})
        if ray.cluster_resources().get(RESOURCE, 0) < 1:
            raise LonghaulError(
                f"no node of the cluster has the resource `{RESOURCE}`, which says that it may measure; "
                f"start nodes with ray start --resources='{{\"{RESOURCE}\": 1}}'"
            )
        self._ray = ray
        self._measurement = measurement
        self._retries = retries
        self._in_flight: dict[Any, Block] = {}

    def start(self, block: Block, avoid: Collection[str] = ()) -> None:
        """Queues a task."""
        others = [node for node in self._nodes() if node not in avoid] if avoid else []
        options: dict[str, Any] = {"num_cpus": 1, "resources": {RESOURCE: 1}, "max_retries": self._retries}
        if others:
            # If that node dies first, any other will do.
            strategies = need("ray.util.scheduling_strategies", "ray")
            options["scheduling_strategy"] = strategies.NodeAffinitySchedulingStrategy(random.choice(others), soft=True)
        reference = self._ray.remote(**options)(_measure).remote(self._measurement, block)
        self._in_flight[reference] = block

    def next(self) -> tuple[Block, Measured]:
        """Waits for a task."""
        [reference], _ = self._ray.wait(list(self._in_flight), num_returns=1)
        block = self._in_flight.pop(reference)
        try:
            measured: Measured = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            # The same for all blocks, such as an unknown contender.
            raise error.cause from error
        except self._ray.exceptions.RayError as error:
            sentence = str(error).strip().partition("\n")[0] or type(error).__name__
            measured = Measured("", error=f"the worker died in each of {self._retries + 1} attempts: {sentence}")
        return block, measured

    def close(self) -> None:
        """Cancels all tasks."""
        cancel(self._ray, list(self._in_flight))

    def _nodes(self) -> list[str]:
        nodes = self._ray.nodes()
        return [node["NodeID"] for node in nodes if node["Alive"] and node["Resources"].get(RESOURCE)]


def _measure(measurement: Measurement, block: Block) -> Measured:
    ray = need("ray", "ray")
    return measurement.measure(block, str(ray.get_runtime_context().get_node_id()))
