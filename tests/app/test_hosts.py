"""Names of hosts: a page of another site that rebinds its name to this machine gets no app.

Streamlit sends all of the app over one websocket. What it serves without one is its own empty frontend.
"""

import base64
import os
import socket
import urllib.request
from urllib.parse import urlsplit

import pytest

OURS = ("FlashAttention", "attention", "viz/", "kernels")


def answer_to_websocket(url, host):
    """The status line of the answer to a request for the websocket, sent as a page of that host sends it."""
    address = urlsplit(url)
    key = base64.b64encode(os.urandom(16)).decode()
    place, upgrade = f"{host}:{address.port}", "Upgrade: websocket\r\nConnection: Upgrade"
    lines = ["GET /_stcore/stream HTTP/1.1", f"Host: {place}", f"Origin: http://{place}", upgrade]
    lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall("\r\n".join(lines).encode())
        return connection.recv(200).split(b"\r\n")[0].decode()


def body(url, host, path):
    request = urllib.request.Request(url.rstrip("/") + path, headers={"Host": host})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.read().decode()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_this_machine_gets_the_app(host, url):
    assert "101" in answer_to_websocket(url, host)


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example@localhost"]
)
def test_another_name_gets_no_websocket_and_nothing_of_ours(host, url):
    assert "403" in answer_to_websocket(url, host)
    for path in ("/", "/learn", "/_stcore/host-config"):
        page = body(url, host, path)
        assert not [word for word in OURS if word in page]
