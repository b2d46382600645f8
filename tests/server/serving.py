"""A page served for a test, on a loopback port of its own, and a client that asks it as it is told to."""

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from leadline.server.app import Server, listening


@contextmanager
def serving(page):
    """Its address, for as long as it is served."""
    with listening(0) as listener:
        ready = threading.Event()
        server = Server(page, ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert ready.wait(10)
            yield page.address(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(10)
            assert not thread.is_alive()


def ask(address, file="", method="GET", path=None, **headers):
    """Status, headers and text of the answer; the path is taken as it is."""
    parts = urlsplit(address)
    client = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    client.request(method, parts.path + file if path is None else path, headers=named)
    answer = client.getresponse()
    said = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
    client.close()
    return said


class Listener:
    """Follows a stream in a thread: `heard` are the names, the data and the ids of its events, but for heartbeats."""

    def __init__(self, address, file="events", **headers):
        parts = urlsplit(address)
        self.heard, self.ended = [], threading.Event()
        self._client = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._client.request("GET", parts.path + file, headers=named)
        self._socket, self.answer = self._client.sock, self._client.getresponse()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        event = {}
        try:
            for line in self.answer:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    event[name] = value
                elif "event" in event:
                    if event["event"] != "alive":
                        self.heard.append((event["event"], json.loads(event["data"]), event.get("id")))
                    event = {}
        except (OSError, http.client.HTTPException):
            pass
        self.answer.close()
        self._client.close()
        self.ended.set()

    def until(self, holds, seconds=10):
        """Wait until something holds of what was heard."""
        give_up = time.monotonic() + seconds
        while not holds(self.heard):
            assert time.monotonic() < give_up, self.heard[-3:]
            time.sleep(0.01)
        return self.heard

    def close(self):
        """Hang up."""
        with suppress(OSError):  # where the server did already
            self._socket.shutdown(socket.SHUT_RDWR)
        assert self.ended.wait(10)
