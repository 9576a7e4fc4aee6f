"""A proxy between SuperNodes and SuperLink that counts bytes by the path of the HTTP request."""

import contextlib
import socket
import threading
from collections import Counter


class CountingProxy:
    """A proxy: `port = CountingProxy()(target)` listens; all bytes to and from `target` are counted in `up` and `down`."""

    def __init__(self):
        self.up, self.down, self.requests = Counter(), Counter(), Counter()
        self.target, self.port = None, None

    def __call__(self, target: int) -> int:
        if self.port is None:
            self.target = target
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.port = self.listener.getsockname()[1]
            threading.Thread(target=self._accept, daemon=True).start()
        return self.port

    def reset(self) -> None:
        """Set all counts to zero."""
        for counter in (self.up, self.down, self.requests):
            counter.clear()

    def _accept(self) -> None:
        """Connect each node with the SuperLink."""
        while True:
            try:
                node, _ = self.listener.accept()
            except OSError:
                return
            link = socket.create_connection(("127.0.0.1", self.target))
            path = ["?"]
            for pair in ((node, link, self.up, True), (link, node, self.down, False)):
                threading.Thread(target=self._forward, args=(*pair, path), daemon=True).start()

    def _forward(self, source, sink, counter, requests: bool, path: list) -> None:
        """Forward bytes from one socket to the other and count them by the path of the request."""
        remaining, header = 0, b""
        try:
            while data := source.recv(1 << 16):
                if requests:  # one request after another: a header, then content-length bytes
                    unread = data
                    while unread:
                        if remaining:
                            part = unread[:remaining]
                            remaining -= len(part)
                        else:
                            header += unread
                            if b"\r\n\r\n" not in header:
                                counter[path[0]] += len(unread)
                                break
                            text, _, body = header.partition(b"\r\n\r\n")
                            path[0] = text.split()[1].decode()
                            self.requests[path[0]] += 1
                            sizes = [
                                int(line.split(b":")[1])
                                for line in text.split(b"\r\n")
                                if line.lower().startswith(b"content-length:")
                            ]
                            remaining = sizes[0] if sizes else 0
                            part = unread[: len(unread) - len(body)]
                            header = b""
                        counter[path[0]] += len(part)
                        unread = unread[len(part) :]
                else:
                    counter[path[0]] += len(data)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening."""
        if self.port is not None:
            self.listener.close()
