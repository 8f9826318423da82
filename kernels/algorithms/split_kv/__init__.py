"""Split-KV decoding (flash-decoding)."""
