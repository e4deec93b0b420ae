"""A proxy in front of an HTTP service. It makes requests fail as networks and services do."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from support.processes import free_port

TIMEOUT = 60.0


@dataclass(frozen=True)
class Request:
    """A request of a client.

    Attributes
    ----------
    method : str
        Such as ``PUT``.
    path : str
        The path with the query.
    headers : mapping of str to str
        The headers, by their names in lower case.
    """

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def is_conditional(self) -> bool:
        """Whether it creates an object only if there is none of its name."""
        return self.headers.get("if-none-match") == "*"

    @property
    def kind(self) -> tuple[str, bool, tuple[str, ...], str]:
        """What it asks for: the method, the condition, the parameters and the kind of the path."""
        url = urlsplit(self.path)
        path = PurePosixPath(url.path)
        return (
            self.method,
            self.is_conditional,
            tuple(sorted(parse_qs(url.query, True))),
            (path.suffix or path.parent.name),
        )

    @property
    def is_commit(self) -> bool:
        """Whether it writes a commit of a Delta table."""
        return self.method == "PUT" and "/_delta_log/0" in self.path and ".json" in self.path


Matching = Callable[[Request], bool]
Kind = Literal["unavailable", "dropped", "unconditional"]


@dataclass
class Fault:
    """What happens to some requests.

    Attributes
    ----------
    kind : str
        ``unavailable``: the answer is 503, and the service sees nothing. ``dropped``: the service
        does what is asked, and the connection ends without its answer. ``unconditional``: the
        service does not see the condition of the request.
    matching : callable
        Selects the requests.
    every : int
        The fault hits one of so many of these requests.
    """

    kind: Kind
    matching: Matching
    every: int = 1
    seen: int = 0
    #: How many requests it has hit.
    hits: int = 0

    def hit(self, request: Request) -> bool:
        if not self.matching(request):
            return False
        self.seen += 1
        if self.seen % self.every:
            return False
        self.hits += 1
        return True


class Proxy:
    """A proxy on a port of its own.

    Parameters
    ----------
    port : int
        The port of the service on this machine.
    serialized : callable, optional
        Selects the requests that the service must get one at a time.
    """

    def __init__(self, port: int, serialized: Matching = lambda request: False) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        #: The requests that were made.
        self.requests: list[Request] = []
        self._service = port
        self._serialized = serialized
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._server: _Server | None = None

    def __enter__(self) -> Proxy:
        self._start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Refuse connections, and end those that are open, until the end of the block."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    @contextmanager
    def first_answers_lost(self) -> Iterator[set[Any]]:
        """Lose the answer to the first request of each kind, and give the kinds."""
        kinds: set[Any] = set()

        def is_first(request: Request) -> bool:
            count = len(kinds)
            kinds.add(request.kind)
            return len(kinds) > count

        with self.fault("dropped", is_first):
            yield kinds

    @contextmanager
    def fault(
        self,
        kind: Kind,
        matching: Matching = lambda request: True,
        every: int = 1,
    ) -> Iterator[Fault]:
        """Make requests fail until the end of the block."""
        fault = Fault(kind, matching, every)
        self._faults.append(fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)

    def answer(self, request: Request, body: bytes) -> _Answer | None:
        """Return the answer to a request, or None if the connection ends without one."""
        with self._lock:
            self.requests.append(request)
            fault = next((fault for fault in self._faults if fault.hit(request)), None)
        if fault and fault.kind == "unavailable":
            return _Answer(503, [("Retry-After", "1")], b"")
        if fault and fault.kind == "unconditional":
            kept = {k: v for k, v in request.headers.items() if k != "if-none-match"}
            return self._forward(Request(request.method, request.path, kept), body)
        with self._turn if self._serialized(request) else nullcontext():
            answer = self._forward(request, body)
        return None if fault else answer

    def _forward(self, request: Request, body: bytes) -> _Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._service, timeout=TIMEOUT)
        try:
            headers = {k: v for k, v in request.headers.items() if k not in _OF_A_CONNECTION}
            connection.request(request.method, request.path, body, headers)
            response = connection.getresponse()
            content = response.read()
            kept = [(k, v) for k, v in response.getheaders() if k.lower() not in _OF_A_CONNECTION]
            return _Answer(response.status, kept, content)
        finally:
            connection.close()

    def _start(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        while self._server is None:
            try:
                self._server = _Server(self)
            except OSError:  # a client has the port for a moment
                assert time.monotonic() < deadline, f"the port {self.port} is still in use"
                time.sleep(0.1)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _stop(self) -> None:
        if self._server is not None:
            self._server.is_away = True
            self._server.shutdown()
            self._server.server_close()
            self._server = None


_OF_A_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "expect", "host"}


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.is_away = False
        super().__init__(("127.0.0.1", proxy.port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _handle(self) -> None:
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = None
        if not self.server.is_away:
            try:
                answer = self.server.proxy.answer(Request(self.command, self.path, headers), body)
            except OSError:  # the service has ended
                answer = None
        if answer is None or self.server.is_away:
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        names = {name.lower() for name, _ in answer.headers}
        for name, value in answer.headers:
            self.send_header(name, value)
        if "content-length" not in names and answer.status not in (204, 304):
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers
            pass
        return b"".join(chunks)

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""
