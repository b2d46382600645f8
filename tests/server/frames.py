"""Frames of a game, as they are sent, read again."""

import json

import numpy as np


def unpacked(content):
    """What is said as JSON, and the planes of bytes by their names, [rows, columns]."""
    length = int.from_bytes(content[:4], "little")
    said = json.loads(content[4 : 4 + length])
    side = said["grid"]
    planes = np.frombuffer(content[4 + length :], np.uint8).reshape(-1, side, side)
    return said, dict(zip(said["planes"], planes, strict=True))
