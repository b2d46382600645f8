"""The lines of a file that grows: each is read once, and all again where the file is another, or was cut."""

from collections.abc import Callable
from typing import BinaryIO

AT_ONCE = 4 * 2**20
"""Bytes read in one go: others wait meanwhile."""

LONGEST = 2**20
"""Of a line; what is longer is none of ours."""

_REMEMBERED = 512
"""Of the last bytes read: where they stand no more, the file was cut, and may have grown again since."""


class Tail:
    """Follows one file."""

    def __init__(self, open_file: Callable[[], BinaryIO]):
        self._open = open_file
        self._seen: tuple[int, int, int] | None = None
        self._forget()

    def _forget(self) -> None:
        self._at, self._before, self._rest, self._file = 0, b"", b"", 0

    def new(self, now: tuple[int, int, int] | None) -> tuple[bool, list[bytes]]:
        """The whole lines that are new.

        Args:
            now: what `Place.changed` says of the file.

        Returns:
            Whether all that was read before is void, and the lines.
        """
        if now is None or now == self._seen:
            void = now is None and self._at > 0
            if void:
                self._forget()
            self._seen = now
            return void, []
        void = False
        with self._open() as file:
            if self._at and (now[0] != self._file or not self._stands(file)):
                self._forget()
                void = True
            self._file = now[0]
            file.seek(self._at)
            content = file.read(AT_ONCE)
        self._at += len(content)
        self._before = (self._before + content)[-_REMEMBERED:]
        self._seen = now if len(content) < AT_ONCE else None
        *lines, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > LONGEST:
            self._rest = b""
        return void, lines

    def _stands(self, file: BinaryIO) -> bool:
        """Whether the file still has what was read last."""
        file.seek(self._at - len(self._before))
        return file.read(len(self._before)) == self._before
