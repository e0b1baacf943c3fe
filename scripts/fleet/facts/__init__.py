"""What is known of a host: commands that ask for it, and what reads the answers."""
