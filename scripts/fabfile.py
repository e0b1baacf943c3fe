"""The tasks an operator types: `fab --search-root scripts --list`."""

from __future__ import annotations

from tasks.check import check
from tasks.deploy import deploy, status
from tasks.monitoring import monitoring

__all__ = ["check", "deploy", "monitoring", "status"]
