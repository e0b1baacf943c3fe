"""What speaks against running on a host, by what is known of it."""
