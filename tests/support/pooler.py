"""A stand-in for a connection pooler between the clients and a server."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

TLS_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
PROTOCOL_3 = 196608

Change = Callable[[bytes], bytes]


def refused(answer: str, state: str) -> bytes:
    """Return the message of a pooler that ends a connection with an error."""
    fields = b"SFATAL\0VFATAL\0" + f"C{state}\0M{answer}\0".encode() + b"\0"
    return b"E" + struct.pack(">i", 4 + len(fields)) + fields


@contextmanager
def pgbouncer() -> Iterator[int]:
    """Give the port of a pooler that refuses startup parameters as PgBouncer did before 1.23."""

    def serve(client: socket.socket) -> None:
        if b"\0replication\0" in _startup(client):
            client.sendall(refused("unsupported startup parameter: replication", "08P01"))

    with _listening(serve) as port:
        yield port


@contextmanager
def proxy(
    server: int,
    startup: Change = lambda sent: sent,
    then: Change = lambda sent: sent,
    answers: Change = lambda sent: sent,
    gone: Callable[[], object] = lambda: None,
) -> Iterator[int]:
    """Give the port of a proxy that changes what a server and its clients send.

    Parameters
    ----------
    server : int
        The port of the server.
    startup, then : callable
        Change the parameters of a client's startup message, and each piece that it sends later.
    answers : callable
        Changes each piece that the server sends. If it raises an OSError, the client loses its
        connection.
    gone : callable
        Runs before the server hears that a client is gone.
    """

    def serve(client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", server)) as upstream:
            body = startup(_startup(client))
            upstream.sendall(struct.pack(">ii", 8 + len(body), PROTOCOL_3) + body)
            back = threading.Thread(target=_copy, args=(upstream, client, answers))
            back.start()
            _copy(client, upstream, then, gone)
            back.join()

    with _listening(serve) as port:
        yield port


def _startup(client: socket.socket) -> bytes:
    """Refuse encryption, and return the parameters of the startup message."""
    while True:
        length, code = struct.unpack(">ii", _read(client, 8))
        body = _read(client, length - 8)
        if code == PROTOCOL_3:
            return body
        client.sendall(b"N")


def _read(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += source.recv(size - len(data)) or _end()
    return data


def _end() -> bytes:
    raise ConnectionError


def _copy(
    source: socket.socket,
    target: socket.socket,
    change: Change,
    ended: Callable[[], object] = lambda: None,
) -> None:
    how = socket.SHUT_RDWR
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(change(data))
        how = socket.SHUT_WR
    ended()
    with suppress(OSError):
        target.shutdown(how)


@contextmanager
def _listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    def handle(client: socket.socket) -> None:
        with client, suppress(ConnectionError):
            serve(client)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=handle, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
