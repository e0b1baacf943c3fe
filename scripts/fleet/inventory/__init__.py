"""What the operator writes: the hosts, their settings, the secrets."""
