"""Messages between client and worker: one line of JSON each, then as many raw bytes as the line says."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO


def read_message(stream: IO[bytes]) -> tuple[dict, bytes] | None:
    """The next message and its bytes; None if the stream ends before or in the middle of it."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    message = json.loads(line)
    size = message.get("size", 0)
    blob = stream.read(size) if size else b""
    return (message, blob) if len(blob) == size else None


def write_message(stream: IO[bytes], message: dict, blob: bytes = b"") -> None:
    """Write one message, in which dataclasses stand for their fields, and its bytes, and flush."""
    stream.write(json.dumps(message | {"size": len(blob)}, default=asdict).encode() + b"\n" + blob)
    stream.flush()
