"""What every block can do, and the blocks by their names."""

import abc
from typing import Any, ClassVar, Literal

from jaxtyping import Array, Float, Key, PyTree

from leadline._registry import Registry, is_own
from leadline.backend.random import AnyKey
from leadline.network.convolutions import Shape
from leadline.network.layers import Draw, Packable

BLOCKS = Registry("block")
"""Those that have a name, by it."""


Units = Literal["layer", "state"]
"""What has units: every layer its own, or the state that goes through all layers."""


class Block(Packable):
    """f_l and g_l: one more layer, and the head that reads the network off at its depth.

    A block says how rows enter the network, how a state takes one step, and how it is read off. `layer` and `head` are
    modules with a `kl()`, of whatever arrays they need: growth, the optimiser, packing and files know only that the one
    is used at every depth from its own on, the other at its own alone. All blocks but the first have one shape.

    Args:
        n_in: what the layer takes: so many numbers; of the first block of one that takes images, their `Shape`.
        width: its units.
        n_outputs: what the head puts out.
        key: of the weights at the start.

    Examples:
        >>> import numpy as np
        >>> from leadline import Block, UnboundedNetwork
        >>> network = UnboundedNetwork(3, 2, width=4, capacity=2, block="dense", key=np.array([0, 1], np.uint32))
        >>> isinstance(network.first, Block), network.first.sizes, network.deeper.stack
        (True, (3, 4, 2), (2,))
    """

    registry: ClassVar[Registry] = BLOCKS
    name: ClassVar[str] = ""
    has_kernel: ClassVar[bool] = False
    """Whether `backend/kernels.py` computes it: an affine layer, LeakyReLU(0.1), an affine head. It is said of a class,
    and not of its subclasses, which do something else."""

    units: ClassVar[Units | None] = None
    """Whose units can be left out (`inference/pruning.py`), if any: those of every `layer`, or of the one `state` that
    all layers add to. Layer and head are then `GaussianLinear`s."""
    takes_images: ClassVar[bool] = False
    """Whether the rows that enter are images, whose `Shape` the first block is told."""

    parts: ClassVar[tuple[type, ...]] = ()
    """The modules that it is made of: a model file holds these."""

    layer: Any
    head: Any

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "has_kernel" not in vars(cls):
            cls.has_kernel = False
        if is_own(cls) and cls.__dict__.get("name"):
            BLOCKS.data[cls.name] = cls

    @abc.abstractmethod
    def __init__(self, n_in: int | Shape, width: int, n_outputs: int, *, key: AnyKey, **weights: Any):
        """`weights` says how the weights start and what their prior is, in `GaussianLinear`'s own arguments."""

    @classmethod
    def first(cls, n_in: Any, width: int, n_outputs: int, *, key: AnyKey, **weights: Any) -> "Block":
        """The block by which rows enter, where it does not start as those that follow it.

        Args:
            n_in: columns of x.
            width: its units.
            n_outputs: what the head puts out.
            key: of the weights at the start.
            weights: how they start, and what their prior is.
        """
        return cls(n_in, width, n_outputs, key=key, **weights)

    @staticmethod
    @abc.abstractmethod
    def enter(x: Float[Array, "batch in"]) -> PyTree:
        """The state that the first block takes a step from.

        Args:
            x: rows.
        """

    @abc.abstractmethod
    def step(self, state: PyTree, *, key: Key[Array, ""], draw: Draw) -> PyTree:
        """f_l: the state one layer further.

        Args:
            state: of the layers before.
            key: of the draw.
            draw: of noise on the pre-activations, or of the weights.
        """

    @abc.abstractmethod
    def read(self, state: PyTree, *, key: Key[Array, ""], draw: Draw) -> Float[Array, "batch out"]:
        """g_l: what the network puts out at this depth.

        Args:
            state: of the layers before.
            key: of the draw.
            draw: of noise on the pre-activations, or of the weights.
        """

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[int, int, int]:
        """Inputs, width and outputs."""

    @abc.abstractmethod
    def check_sizes(self, stack: tuple[int, ...], n_in: int, width: int, n_outputs: int) -> None:
        """Refuse, with a ValueError, arrays of a file that are of other sizes; `stack` has the axes in front.

        Args:
            stack: the axes in front.
            n_in: what the layer takes.
            width: its units.
            n_outputs: what the head puts out.
        """

    @property
    def stack(self) -> tuple[int, ...]:
        """The axes in front, where this is not one block but a stack of them."""
        return self.layer.stack
