"""`python -m voxyard` is the command `voxyard`."""

from voxyard.cli import main

main()
