"""Ciphers that encrypt nothing worth hiding, in ways that tests can tell."""

from __future__ import annotations


class XorCipher:
    def __init__(self, name: str = "xor", key: int = 0x55) -> None:
        self.name = name
        self._key = key

    def encrypt(self, data: bytes) -> bytes:
        return bytes(byte ^ self._key for byte in data)

    def decrypt(self, data: bytes) -> bytes:
        return self.encrypt(data)


class BrokenCipher:
    def __init__(self, name: str = "broken", gives: object = None) -> None:
        self.name = name
        self._gives = gives

    def encrypt(self, data: bytes) -> bytes:
        if self._gives is None:
            raise RuntimeError(f"cannot encrypt {data!r}")
        return self._gives  # type: ignore[return-value]

    def decrypt(self, data: bytes) -> bytes:
        raise RuntimeError("cannot decrypt")
