"""Pin every package that some requirements bring, the indirect ones too, in a constraints file."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HEAD = "# Written by `make lock`: the versions that voxyard is tested with.\n"
LEFT_OUT = re.compile(r"^(voxyard|nvidia-(?!ml-py|nvml-dev)|cuda-|triton)")  # CUDA's own follow from torch's pin


def main(arguments: list[str] | None = None) -> int:
    """Write the file; pip's exit code where pip fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("requirements", nargs="+")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        done = subprocess.run([*pip, "--report", str(report), *chosen.requirements], check=False)
        if done.returncode != 0:
            return done.returncode
        text = pins(json.loads(report.read_text(encoding="utf-8")))
    chosen.output.write_text(HEAD + text, encoding="utf-8")
    print(f"{chosen.output}: {text.count('==')} packages")
    return 0


def pins(report: Mapping[str, Any]) -> str:
    """The lines `name==version` of pip's report, sorted; a local part (`+cpu`) is left to the machine."""
    named = ((each["metadata"]["name"], each["metadata"]["version"]) for each in report["install"])
    names = {re.sub(r"[-_.]+", "-", name).lower(): version.partition("+")[0] for name, version in named}
    return "".join(f"{name}=={version}\n" for name, version in sorted(names.items()) if not LEFT_OUT.match(name))


if __name__ == "__main__":
    sys.exit(main())
