"""A gate between SuperNodes and SuperLink that counts bytes by what they were for (HTTP in the clear)."""

import contextlib
import socket
import threading
from collections import Counter


class Gate:
    """`port = Gate()(target)`: all that passes is counted in `up` and `down`, by path of the request."""

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
        for counter in (self.up, self.down, self.requests):
            counter.clear()

    def _accept(self) -> None:
        while True:
            try:
                node, _ = self.listener.accept()
            except OSError:
                return
            link = socket.create_connection(("127.0.0.1", self.target))
            what = ["?"]
            for pair in ((node, link, self.up, True), (link, node, self.down, False)):
                threading.Thread(target=self._pass, args=(*pair, what), daemon=True).start()

    def _pass(self, source, sink, counter, requests: bool, what: list) -> None:
        left, head = 0, b""
        try:
            while data := source.recv(1 << 16):
                if requests:  # one request after another: a head, then content-length bytes
                    rest = data
                    while rest:
                        if left:
                            taken = rest[:left]
                            left -= len(taken)
                        else:
                            head += rest
                            if b"\r\n\r\n" not in head:
                                counter[what[0]] += len(rest)
                                break
                            text, _, body = head.partition(b"\r\n\r\n")
                            what[0] = text.split()[1].decode()
                            self.requests[what[0]] += 1
                            sizes = [
                                int(line.split(b":")[1])
                                for line in text.split(b"\r\n")
                                if line.lower().startswith(b"content-length:")
                            ]
                            left = sizes[0] if sizes else 0
                            taken = rest[: len(rest) - len(body)]
                            head = b""
                        counter[what[0]] += len(taken)
                        rest = rest[len(taken) :]
                else:
                    counter[what[0]] += len(data)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self.port is not None:
            self.listener.close()
