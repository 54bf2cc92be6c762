"""All tables of this package."""

from __future__ import annotations

from typing import Any

from .capture_tables import CAPTURE_SCHEMAS
from .fleet.tables import FLEET_SCHEMAS
from .packets import PACKETS
from .run_tables import RUN_SCHEMAS
from .table import Schema

__all__ = ["SCHEMAS"]

#: Those of a run, and those of an explanation, and those of a fleet.
SCHEMAS: tuple[Schema[Any], ...] = (*RUN_SCHEMAS, *CAPTURE_SCHEMAS, PACKETS, *FLEET_SCHEMAS)
