"""What a network can be made of: one file a block."""

from leadline._discovery import import_all
from leadline.network.blocks.base import BLOCKS, Block, Shape
from leadline.network.blocks.dense import Dense

__all__ = ["BLOCKS", "Block", "Dense", "Shape"]

import_all(__name__, __path__)
