"""A front of a server of S3 that refuses whatever changes objects, as the policy of a bucket does: `HOST:PORT` of the server."""

import http.client
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class ReadOnly(BaseHTTPRequestHandler):
    """Forwards what reads, and refuses the rest."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        behind = http.client.HTTPConnection(sys.argv[1])
        behind.request(self.command, self.path, headers=dict(self.headers))
        answer = behind.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        size = answer.headers.get("content-length", "0") if self.command == "HEAD" else str(len(body))
        self.send_header("content-length", size)
        self.end_headers()
        self.wfile.write(body)
        behind.close()

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(403)
        self.send_header("content-length", str(len(_DENIED)))
        self.end_headers()
        self.wfile.write(_DENIED)

    do_HEAD = do_GET
    do_POST = do_DELETE = do_PUT

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), ReadOnly) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
