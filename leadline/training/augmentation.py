"""Images moved and mirrored at random each time that they are seen, within the compiled step."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from leadline._checks import InvalidArgumentError
from leadline.backend.random import bits
from leadline.network.blocks import Shape


@dataclass(frozen=True)
class Augmentation:
    """How a batch of images is drawn anew.

    Args:
        shape: of the images, which are rows.
        crop: they move by so many places at most, up or down and left or right; what comes in repeats the edge.
        flip: whether every other image, at random, is mirrored left to right.
    """

    shape: Shape
    crop: int
    flip: bool

    def __call__(self, x: Float[Array, "batch in"], key: Key[Array, ""]) -> Float[Array, "batch in"]:
        """Every image by a draw of its own."""
        height, width, channels = self.shape
        (down, mirrored), (right, _) = bits(key, (2, len(x)))  # two words for every number
        n_places = 2 * self.crop + 1
        rows = jnp.arange(height) + ((down % n_places).astype(int) - self.crop)[:, None]
        columns = jnp.arange(width) + ((right % n_places).astype(int) - self.crop)[:, None]
        if self.flip:
            columns = jnp.where((mirrored % 2 == 0)[:, None], columns[:, ::-1], columns)
        rows, columns = jnp.clip(rows, 0, height - 1), jnp.clip(columns, 0, width - 1)

        def moved(image: Array, rows: Array, columns: Array) -> Array:
            return image[rows[:, None], columns[None, :]]

        return jax.vmap(moved)(x.reshape(len(x), height, width, channels), rows, columns).reshape(x.shape)


def augmentation_of(crop: int, flip: bool, shape: Any) -> Augmentation | None:
    """What is asked for, if it can be done: rows of a table are no images."""
    if not (crop or flip):
        return None
    if shape is None:
        name, value, nothing = ("crop", crop, 0) if crop else ("flip", flip, False)
        raise InvalidArgumentError(f"must be {nothing} where rows are no images, got {value}.", name)
    return Augmentation(shape, int(crop), bool(flip))
