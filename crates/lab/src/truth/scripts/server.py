# An HTTP/1.1 server on Python's own, with the knobs that it has no options for. Its argument is a JSON object.
import functools
import http.server
import json
import os
import socket
import ssl
import sys
import time

knobs = json.loads(sys.argv[1])
# socket.SO_MAX_PACING_RATE is not in Python's module.
SO_MAX_PACING_RATE = 47


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = knobs.get("nodelay", False)

    def setup(self):
        if "pacing" in knobs:
            self.request.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, knobs["pacing"])
        super().setup()

    def do_GET(self):
        time.sleep(knobs.get("think", 0))
        if self.path == "/endless":
            return self.endless()
        super().do_GET()

    def do_PUT(self):
        left = int(self.headers["Content-Length"])
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        size, gap = knobs.get("read", [65536, 0])
        while left > 0:
            piece = self.rfile.read(min(size, left))
            if not piece:
                return
            left -= len(piece)
            time.sleep(gap)
        time.sleep(knobs.get("think", 0))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def endless(self):
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        piece = bytes(65536)
        try:
            while True:
                self.wfile.write(piece)
        except OSError:
            pass

    def copyfile(self, source, output):
        size, gap = knobs.get("write", [65536, 0])
        while piece := source.read(size):
            output.write(piece)
            time.sleep(gap)

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


time.sleep(knobs.get("late", 0))
os.chdir(knobs["root"])
server = Server(("", knobs["port"]), functools.partial(Handler, directory=knobs["root"]))
if "certificate" in knobs:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(knobs["certificate"], knobs["key"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
