"""An authority and a gateway's certificate, made with the commands that deploy/README.md names."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[3] / "deploy/README.md"


@dataclass(frozen=True)
class Authority:
    """Root certificate as a file; certificate and key of the gateway as PEM."""

    root: Path
    certificate: str
    key: str


def new_authority(folder: Path, name: str, address: str = "127.0.0.1") -> Authority:
    """Run the guide's commands in `folder`, for a gateway with this name and address."""
    (commands,) = re.findall(r"```\n(openssl req -x509.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    text = commands.replace("speech.lab.example", name).replace("192.0.2.20", address)
    subprocess.run(["sh", "-euc", text], cwd=folder, check=True, capture_output=True)
    return Authority(
        folder / "gateway-ca.pem", (folder / "gateway.pem").read_text(), (folder / "gateway-key.pem").read_text()
    )
