#!/usr/bin/env python3
"""Prints the key of each need of a node, one per line: a client of the seat in the standard library.

usage: ask.py NODE, with NATS_URL (nats://host:port), NATS_USER and NATS_PASSWORD in the environment
"""
import json, os, secrets, socket, sys, time
from decimal import Decimal
from urllib.parse import urlparse

VERB, TIMEOUT = "mesh-provisioner.provisioning", 6
RETRY = {"jetstream_error", "jetstream_unavailable", "bucket_changing", "full", "stopping", "timeout"}


def request(bus, lines, body):
    """Sends one request and returns the header block and the body of its response."""
    reply, body = "_INBOX." + secrets.token_hex(11), json.dumps(body)
    bus.sendall(f"SUB {reply} 1\r\nUNSUB 1 1\r\nPUB {VERB} {reply} {len(body)}\r\n{body}\r\n".encode())
    while line := lines.readline().split():
        if line[0] == b"PING":
            bus.sendall(b"PONG\r\n")
        elif line[0] == b"-ERR":
            sys.exit(b" ".join(line).decode())
        elif line[0] in (b"MSG", b"HMSG"):
            payload = lines.read(int(line[-1]) + 2)[:-2]
            headers = int(line[-2]) if line[0] == b"HMSG" else 0
            return payload[:headers], payload[headers:]
    sys.exit("the connection was lost")


url = urlparse(os.environ["NATS_URL"])
bus = socket.create_connection((url.hostname, url.port or 4222), TIMEOUT)
lines = bus.makefile("rb")
lines.readline()  # INFO
options = {"user": os.environ["NATS_USER"], "pass": os.environ["NATS_PASSWORD"]}
options |= {"verbose": False, "headers": True, "no_responders": True}
bus.sendall(f"CONNECT {json.dumps(options)}\r\n".encode())
query, tries = {"what": "needs", "node": sys.argv[1], "limit": 100}, 0
while True:
    headers, body = request(bus, lines, query)
    if headers.startswith(b"NATS/1.0 503"):
        sys.exit("no seat is connected")
    page = json.loads(body, parse_float=Decimal)  # Python keeps the digits of integers, and these of fractions
    if error := page.get("error"):
        tries += 1
        if error["reason"] not in RETRY or tries > 3:
            sys.exit(f"error {error['code']}: {error['message']}")
        time.sleep(2**tries)
        continue
    for entry in page["entries"]:
        print(entry["key"])
    for malformed in page["malformed"]:
        print(f"malformed: {malformed['key']}: {malformed['detail']}", file=sys.stderr)
    if "next" not in page:
        break
    query["after"] = page["next"]
