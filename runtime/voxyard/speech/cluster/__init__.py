"""Workers on other hosts: a Ray cluster that voxyard starts, and a pool's transport to it."""
