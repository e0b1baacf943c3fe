"""TLS gateway in front of the speech services: HAProxy, as a part of its host's release."""
