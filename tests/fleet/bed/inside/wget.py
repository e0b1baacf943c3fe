#!/usr/bin/python3
"""Minimal wget for health checks, `wget -q -O /dev/null URL`; it runs often, so it imports little."""

import socket
import sys

address, _, path = sys.argv[-1].removeprefix("http://").partition("/")
host, _, port = address.rpartition(":")
try:
    with socket.create_connection((host, int(port)), 5) as connection:
        connection.sendall(f"GET /{path} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
        with connection.makefile("rb") as answer:
            status = answer.readline().decode()
            answer.read()
except OSError as error:
    sys.exit(f"wget: {error}")
if status.split()[1:2] != ["200"]:
    sys.exit(f"wget: {status.strip() or 'no answer'}")
