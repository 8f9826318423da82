"""Messages between the client and the worker: one line of JSON each, followed by as many raw bytes as it says."""

from __future__ import annotations

import json
from typing import BinaryIO


def read_message(stream: BinaryIO) -> tuple[dict, bytes] | None:
    """The next message and its bytes; None at the end of the stream, or if it ends in the middle of a message."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    message = json.loads(line)
    size = message.get("size", 0)
    blob = stream.read(size) if size else b""
    return (message, blob) if len(blob) == size else None


def write_message(stream: BinaryIO, message: dict, blob: bytes = b"") -> None:
    """Write one message and its bytes, and flush."""
    stream.write(json.dumps(message | {"size": len(blob)}).encode() + b"\n" + blob)
    stream.flush()
