"""What Leadline made, by what stands in it: nothing else is ever overwritten or removed."""

import errno
import hashlib
import json
import os
import stat
from contextlib import suppress
from pathlib import Path

from leadline.files import whole

GENERATOR = "leadline"
"""Stands in the head of a page, in the header of a model file and in a picture."""

_HEAD = 1 << 16
"""Bytes in which a mark stands."""

_BEGINNINGS = {
    ".csv": (b"recipe,depth,", b"name,split,depth,", b"name,seed,depth,", b"candidate,"),
    ".jsonl": (b'{"restart": 0, "epoch": ',),
    ".md": (
        *(b"# Ours and the published numbers\n", b"# The UCI sets: ours beside the published\n"),
        b"# Images: ours beside the published\n",
    ),
}
_MARKS = {
    ".safetensors": (b'"leadline":',),
    ".png": (f"Software\0{GENERATOR}".encode(),),
    ".html": (
        f'<meta name="generator" content="{GENERATOR}">'.encode(),
        b":root { color-scheme: light dark; --paper: #ffffff;",  # of version 0.1
    ),
}


def is_ours(path: Path) -> bool:
    """Whether there is a file that Leadline wrote, or one with nothing at all in it."""
    if not os.path.lexists(path) or not stat.S_ISREG(path.lstat().st_mode):
        return False
    with whole.open_regular(path) as file:
        head = file.read(_HEAD)
        if path.suffix == ".safetensors":  # its words may stand behind many others
            head += file.read(min(int.from_bytes(head[:8], "little"), whole.MOST_BYTES))
    if path.suffix == ".json":
        with suppress(ValueError, RecursionError):
            said = json.loads(whole.read_regular(path, whole.MOST_BYTES))
            marks = ({"leadline"}, {"depth_pmf", "version"}, {"identity", "version"})  # the last of version 0.1
            return isinstance(said, dict) and any(mark <= said.keys() for mark in marks)
        return not head
    if path.suffix in _BEGINNINGS:
        return not head or head.startswith(_BEGINNINGS[path.suffix])
    return not head or any(mark in head for mark in _MARKS.get(path.suffix, ()))


def digest(content: bytes) -> str:
    """What tells a file from all others."""
    return hashlib.sha256(content).hexdigest()


def check_ours(path: Path) -> None:
    """Refuse to write where something stands that Leadline did not make."""
    if os.path.lexists(path):
        whole.check_place(path)
        if not is_ours(path):
            raise OSError(errno.EEXIST, "what is there is not Leadline's, or is damaged")
