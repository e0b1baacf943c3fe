"""SSH connections to hosts: OpenSSH, routes over jump hosts, host keys, rsync."""
