"""The exporter's own process: settings as JSON, and nothing imported that it does not need."""

from __future__ import annotations

import logging
import sys

from voxyard.host.errors import HostError
from voxyard.telemetry import TelemetryError
from voxyard.telemetry.exporter import Config, run

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        run(Config.from_json(sys.argv[1]))
    except (HostError, TelemetryError) as error:
        logging.getLogger("voxyard.telemetry").error("voxyard exporter: %s", error)
        sys.exit(error.exit_code)
