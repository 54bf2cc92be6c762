# An HTTP/1.1 client on Python's own: requests one after another over one connection. Its argument is a JSON object.
import http.client
import json
import socket
import ssl
import sys
import time

knobs = json.loads(sys.argv[1])
context = ssl._create_unverified_context()
if knobs["tls"]:
    connection = http.client.HTTPSConnection(knobs["host"], knobs["port"], timeout=60, context=context)
else:
    connection = http.client.HTTPConnection(knobs["host"], knobs["port"], timeout=60)
# socket.SO_MAX_PACING_RATE is not in Python's module.
SO_MAX_PACING_RATE = 47
if {"receive_buffer", "send_buffer", "pacing"} & knobs.keys():
    plain = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if "receive_buffer" in knobs:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, knobs["receive_buffer"])
    if "send_buffer" in knobs:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, knobs["send_buffer"])
    if "pacing" in knobs:
        plain.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, knobs["pacing"])
    plain.connect((knobs["host"], knobs["port"]))
    connection.sock = context.wrap_socket(plain) if knobs["tls"] else plain
for index, path in enumerate(knobs["paths"]):
    if index > 0:
        time.sleep(knobs.get("pause", 0))
    if knobs.get("upload"):
        with open(knobs["upload"], "rb") as body:
            connection.request("PUT", path, body=body.read())
    else:
        connection.request("GET", path)
    response = connection.getresponse()
    size, gap = knobs.get("read", [65536, 0])
    stall_at, stall = knobs.get("stall", [0, 0])
    got = 0
    while piece := response.read(size):
        got += len(piece)
        if stall and got >= stall_at:
            time.sleep(stall)
            stall = 0
        time.sleep(gap)
