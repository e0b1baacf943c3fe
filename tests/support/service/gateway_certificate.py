"""An authority, and certificates of a gateway and of hosts, as `fab certificates` makes them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from fleet import certificates
from fleet.inventory.host_tls import HostTls
from fleet.inventory.hosts import Host
from fleet.inventory.secrets import GATEWAY_CERTIFICATE, GATEWAY_KEY, read


@dataclass(frozen=True)
class Authority:
    """Root certificate as a file; certificate and key of the gateway as PEM."""

    root: Path
    certificate: str
    key: str

    def of_host(self, name: str, *addresses: str) -> HostTls:
        """Certificate of a host with this name and these addresses, and its key."""
        now = dt.datetime.now(dt.UTC)
        pair = certificates.issue(certificates.open_authority(self.root.parent, now), (name, *addresses), now)
        return HostTls(name, *pair, self.root.read_bytes())

    def write_of_host(self, path: Path, name: str, *addresses: str) -> Path:
        """The same as files: the certificate at `path`, and its key beside it, with the suffix .key."""
        made = self.of_host(name, *addresses)
        path.write_bytes(made.certificate)
        Path(f"{path}.key").write_bytes(made.key)
        return path


def new_authority(folder: Path, name: str, address: str = "127.0.0.1") -> Authority:
    """Make them in `folder`, for a gateway with this name and address."""
    folder.mkdir(exist_ok=True)
    gateway = Host("gw", address, "voxyard", roles=("gateway",))
    made = certificates.make(folder, [gateway], [name])
    values = read(made.path).values
    return Authority(made.authority, values[GATEWAY_CERTIFICATE].decode(), values[GATEWAY_KEY].decode())
