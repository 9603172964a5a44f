"""A broker of a few lines that speaks just enough MQTT 3.1.1 for one client, and does what a test tells it to."""

from __future__ import annotations

import socket
import struct
import threading

from tests.live.servers import wait_for

CONNECT, PUBLISH, PUBACK, SUBSCRIBE, PINGREQ = 1, 3, 4, 8, 12


class MiniBroker:
    """Accepts connections one after the other; `close` ends it."""

    def __init__(self) -> None:
        self.refusal = 0
        """Code of the answer to a client that connects."""
        self.granted = 1
        """Code of the answer to a subscription."""
        self.present = False
        """Whether it says that it has kept the session."""
        self.acknowledging = True
        """Whether it acknowledges what is published."""
        self.clients: list[bytes] = []
        """What clients said when they connected."""
        self.topics: list[str] = []
        self.acknowledged: list[int] = []
        self.published: list[tuple[str, bytes]] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._client: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def send(self, payload: str, packet: int, *, again: bool = False, topic: str = "rows", qos: int = 1) -> None:
        """Send a message to the client."""
        name = topic.encode()
        number = struct.pack(">H", packet) if qos else b""
        body = struct.pack(">H", len(name)) + name + number + payload.encode()
        self._send(0x30 | again << 3 | qos << 1, body)

    def wait_for_subscription(self, count: int = 1) -> None:
        wait_for(lambda: len(self.topics) >= count, what="a subscription")

    def drop(self) -> None:
        """Lose the connection."""
        self._client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listening.close()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _send(self, kind: int, body: bytes) -> None:
        length, rest = b"", len(body)
        while True:
            rest, digit = divmod(rest, 128)
            length += bytes([digit | 128 * (rest > 0)])
            if not rest:
                break
        self._client.sendall(bytes([kind]) + length + body)

    def _serve(self) -> None:
        while True:
            try:
                self._client, _ = self._listening.accept()
                with self._client:
                    while self._answer(*self._packet()):
                        pass
            except (EOFError, ConnectionError):
                continue
            except OSError:
                return

    def _packet(self) -> tuple[int, bytes]:
        (first,) = self._read(1)
        length, shift = 0, 0
        while True:
            (digit,) = self._read(1)
            length |= (digit & 127) << shift
            shift += 7
            if digit < 128:
                return first, self._read(length)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._client.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def _answer(self, first: int, body: bytes) -> bool:
        kind = first >> 4
        if kind == CONNECT:
            self.clients.append(body)
            self._send(0x20, bytes([self.present and not self.refusal, self.refusal]))
        elif kind == SUBSCRIBE:
            (length,) = struct.unpack(">H", body[2:4])
            self._send(0x90, body[:2] + bytes([self.granted]))
            self.topics.append(body[4 : 4 + length].decode())
        elif kind == PUBACK:
            self.acknowledged.append(struct.unpack(">H", body)[0])
        elif kind == PUBLISH:
            (length,) = struct.unpack(">H", body[:2])
            self.published.append((body[2 : 2 + length].decode(), body[4 + length :]))
            if self.acknowledging:
                self._send(0x40, body[2 + length : 4 + length])
        elif kind == PINGREQ:
            self._send(0xD0, b"")
        return kind != 14
