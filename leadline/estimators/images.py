"""Images as rows: how an estimator takes them in, and what it remembers of them."""

import math
from typing import Any

import numpy as np

from leadline._checks import InvalidArgumentError
from leadline.backend.numerics import mean_and_scale
from leadline.estimators.encoder import is_frame
from leadline.inference.recipes import IMAGE, TABLE
from leadline.network.blocks import BLOCKS, Shape

WANTED = "[rows, height, width, channels] or [rows, height, width]"


def takers() -> str:
    """The blocks that take images, in a sentence."""
    return " or ".join(repr(name) for name, kind in BLOCKS.items() if kind.takes_images)


def takes_images(block: Any) -> bool:
    """Whether it is the name of a block that does."""
    return isinstance(block, str) and block in BLOCKS and BLOCKS[block].takes_images


def recipe_for(recipe: Any, block: Any) -> Any:
    """That of images where nobody has said another than that of tables, which is the default."""
    return IMAGE.name if isinstance(recipe, str) and recipe == TABLE.name and takes_images(block) else recipe


def learned(X: Any, block: Any) -> tuple[Any, Shape | None]:
    """What a block is to learn from: images flat, and their shape, or a table as it is."""
    if not takes_images(block):
        n_axes = getattr(X, "ndim", 2)
        if n_axes > 2:
            must = f"must be a table of rows by columns for the block {block!r}, got shape {X.shape}"
            raise InvalidArgumentError(f"{must}; images are for {takers()}.", "X")
        return X, None
    if is_frame(X) or (images := _array(X)).ndim == 2:
        raise InvalidArgumentError(
            f"must be one that takes tables, as 'dense' does, got {block!r}, which takes images {WANTED}.", "block"
        )
    if images.ndim not in (3, 4) or 0 in images.shape[1:]:
        raise InvalidArgumentError(f"must be images {WANTED}, got shape {images.shape}.", "X")
    images = images if images.ndim == 4 else images[..., None]
    return flat(images), images.shape[1:]


def like_learned(X: Any, shape: Shape | None) -> Any:
    """Others, which must be alike."""
    if shape is None:
        return X
    images = np.empty(0) if is_frame(X) else _array(X)
    given = images.shape[1:] if images.ndim != 3 else (*images.shape[1:], 1)
    if given != shape:
        got = "a table" if is_frame(X) else f"shape {images.shape}"
        height, width, channels = shape
        must = f"must be images [rows, {height}, {width}, {channels}], as those that it was fitted to"
        raise InvalidArgumentError(f"{must}, got {got}.", "X")
    return flat(images)


def flat(images: np.ndarray) -> np.ndarray:
    """A row for each, of finite numbers."""
    rows = images.reshape(len(images), -1)
    if images.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            value = rows[bad[0]][~np.isfinite(rows[bad[0]])][0]
            raise InvalidArgumentError(
                f"must hold finite numbers, got {value} in image {bad[0]}, {len(bad)} such images in all.", "X"
            )
    return rows


def scales(x: np.ndarray, weight: np.ndarray, shape: Shape | None) -> tuple[np.ndarray, np.ndarray]:
    """The means and deviations of the columns; of images those of each channel, at all its places."""
    if shape is None:
        return mean_and_scale(x, weight)
    height, width, channels = shape
    n_places = height * width
    places = x.reshape(-1, channels)
    of_channels = mean_and_scale(places, np.repeat(weight, n_places))
    mean, scale = (np.tile(one, n_places) for one in of_channels)
    return mean, scale


def check_shape(shape: Any, n_inputs: int, block: Any) -> Shape | None:
    """That of a model file, which goes with its network."""
    if (shape is not None) != takes_images(block):
        raise ValueError(f"a network of the block {block!r} for images of the shape {shape}")
    if shape is None:
        return None
    if not (isinstance(shape, list | tuple) and len(shape) == 3 and all(type(n) is int and n > 0 for n in shape)):
        raise ValueError(f"image_shape_ is {shape!r}")
    if math.prod(shape) != n_inputs:
        raise ValueError(f"image_shape_ is {shape!r}, for {n_inputs} numbers")
    height, width, channels = shape
    return height, width, channels


def _array(X: Any) -> np.ndarray:
    try:
        images = np.asarray(X)
    except ValueError as error:
        raise InvalidArgumentError(f"must be images {WANTED}, got a ragged list.", "X") from error
    if images.dtype.kind not in "biuf":
        raise InvalidArgumentError(f"must be images of numbers, {WANTED}, got the type {images.dtype}.", "X")
    return images
