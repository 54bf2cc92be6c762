"""``python -m longhaul`` is ``haul``."""

import os
import sys

from .binary import find_haul
from .errors import HaulNotFoundError

if __name__ == "__main__":
    try:
        haul = find_haul()
    except HaulNotFoundError as error:
        sys.exit(f"longhaul: {error}")
    os.execv(haul, [str(haul), *sys.argv[1:]])
