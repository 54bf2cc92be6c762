"""Tasks on the nodes of a Ray cluster. Ray runs a task again when its worker or its node dies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..binary import STOP_LIMIT
from ..export import need
from .plan import Task
from .work import Result, Work

__all__ = ["cancel", "run", "workers"]


def workers() -> int:
    """The CPUs of the cluster. Starts Ray on this machine if it is not initialised."""
    ray = need("ray", "ray")
    if not ray.is_initialized():
        ray.init()
    return max(int(ray.cluster_resources().get("CPU", 1)), 1)


def run(work: Work, tasks: Iterator[Task], most: int, retries: int) -> Iterator[Result]:
    """Keeps at most this number of tasks in flight, and yields their results as they come."""
    ray = need("ray", "ray")

    explain_batch = ray.remote(num_cpus=1, max_retries=retries)(Work.run)
    in_flight: dict[Any, Task] = {}
    try:
        while True:
            while len(in_flight) < most and (task := next(tasks, None)) is not None:
                in_flight[explain_batch.remote(work, task)] = task
            if not in_flight:
                return
            ready, _ = ray.wait(list(in_flight), num_returns=1)
            for reference in ready:
                task = in_flight.pop(reference)
                try:
                    result = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    # The worker's own exception, such as a full disk: it would be the same for all batches.
                    raise error.cause from error
                except ray.exceptions.RayError as error:
                    sentence = str(error).strip().partition("\n")[0] or type(error).__name__
                    result = work.give_up(task, f"the worker died in each of {retries + 1} attempts: {sentence}")
                yield result
    finally:
        cancel(ray, list(in_flight))


def cancel(ray: Any, in_flight: list[Any]) -> None:
    """Ends tasks. An interrupted worker ends its haul first."""
    for reference in in_flight:
        ray.cancel(reference, force=False)
    if in_flight:
        _, left = ray.wait(in_flight, num_returns=len(in_flight), timeout=STOP_LIMIT)
        for reference in left:
            ray.cancel(reference, force=True)
