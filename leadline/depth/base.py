"""What every distribution over depth can do, and the families by their names."""

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from leadline._checks import InvalidArgumentError
from leadline._registry import Registry, is_own
from leadline.backend.compilation import jit

N_DEPTHS = 1024
"""Depths 0 .. 1023 are looked at unless told otherwise; no network here has a thousand layers."""


Bounds = Literal["real", "integer"]
"""Whether the quantile window of a normal q(L) has real or integer edges."""

Pair = tuple["DepthDistribution", "DepthDistribution"]
"""p(L) and the q(L) to start from."""

FAMILIES = Registry("depth family")
"""Those that have a name, by it, in the order of their files' imports."""


@dataclass(frozen=True)
class Start:
    """What a recipe says of the q(L) to start from; a family takes what it can use."""

    loc: float
    scale: float
    bounds: Bounds = "real"


class DepthDistribution(eqx.Module):
    """A distribution over the number of hidden layers L = 0, 1, 2, ...

    A family says one thing, `log_masses`; all else follows as exact sums over the depths. Its learnable parameters are
    its floating-point array fields, unconstrained real numbers (use softplus for what must be positive). To add a
    family, subclass this, define `log_masses`, and pass an instance wherever a depth distribution is taken. Registered
    (`leadline.register`), and with a `pair`, it is also known by its name: to estimators, the command line, model files
    and reports.

    The depths with mass must be neighbours (an interval), and `log_masses(n)` must be right whenever all mass lies
    below n: training stores more layers before it ever looks at a q(L) that does not fit.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from leadline import DepthDistribution
        >>> class Geometric(DepthDistribution):  # P(L) = p (1 - p)^L
        ...     logit: jax.Array
        ...
        ...     def log_masses(self, n_depths):
        ...         return jax.nn.log_sigmoid(self.logit) + jnp.arange(n_depths) * jax.nn.log_sigmoid(-self.logit)
        >>> print(Geometric(jnp.array(0.0)).pmf(3).round(3))
        [0.5   0.25  0.125]
    """

    registry: ClassVar[Registry] = FAMILIES
    name: ClassVar[str] = ""
    label: ClassVar[str] = ""
    """How reports write the name, if otherwise."""
    colour: ClassVar[str] = "#717581"
    """Of its curves."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if is_own(cls) and cls.__dict__.get("name"):
            FAMILIES.data[cls.name] = cls

    @classmethod
    def pair(cls, start: Start) -> Pair:
        """p(L) and the q(L) to start from, where the family is asked for by its name.

        Args:
            start: what the recipe says of the q(L) to start from.

        Returns:
            The pair of them.
        """
        must = f"must be a pair of {cls.__name__}, which says of no p(L) and q(L) that go by its name"
        raise InvalidArgumentError(f"{must}; give it a class method `pair(start)`, or give two of them.", "depth")

    @abc.abstractmethod
    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        """ln P(L) for L = 0 .. n_depths - 1; -inf outside the support, never NaN.

        Args:
            n_depths: how many depths are looked at, from 0 on.
        """

    def unfrozen(self) -> "DepthDistribution":
        """A member of the family nearby that still has mass beside its most probable depth.

        Where all mass is at one depth, the gradient is zero whatever the data say, and that depth is for ever. A family
        that can get there says here how it is kept away from it; training then projects q(L) after every step.
        """
        return self

    @jit
    def log_mass(self, depth: int | Int[Array, "*shape"], n_depths: int = N_DEPTHS) -> Float[Array, "*shape"]:
        """ln P(L = depth); -inf outside the support, also for negative depths.

        Args:
            depth: one, or several.
            n_depths: how many depths are looked at, from 0 on.
        """
        depth = jnp.asarray(depth)
        inside = (depth >= 0) & (depth < n_depths)
        return jnp.where(inside, self.log_masses(n_depths)[jnp.where(inside, depth, 0)], -jnp.inf)

    @jit
    def pmf(self, n_depths: int = N_DEPTHS) -> Float[Array, " depths"]:
        """P(L) for L = 0 .. n_depths - 1.

        Args:
            n_depths: how many depths are looked at, from 0 on.
        """
        return jnp.exp(self.log_masses(n_depths))

    @jit
    def support(self, n_depths: int = N_DEPTHS) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """The lowest and the highest depth with mass (n_depths - 1 if the mass never ends).

        Args:
            n_depths: how many depths are looked at, from 0 on.
        """
        return interval(self.log_masses(n_depths) > -jnp.inf)

    @jit
    def mean(self, n_depths: int = N_DEPTHS) -> Float[Array, ""]:
        """E[L].

        Args:
            n_depths: how many depths are looked at, from 0 on.
        """
        return self.pmf(n_depths) @ _depths(n_depths)

    @jit
    def variance(self, n_depths: int = N_DEPTHS) -> Float[Array, ""]:
        """Var[L].

        Args:
            n_depths: how many depths are looked at, from 0 on.
        """
        return self.pmf(n_depths) @ jnp.square(_depths(n_depths) - self.mean(n_depths))

    @jit
    def entropy(self, n_depths: int = N_DEPTHS) -> Float[Array, ""]:
        """-sum of P(L) ln P(L), in nats.

        Args:
            n_depths: how many depths are looked at, from 0 on.
        """
        log_masses = self.log_masses(n_depths)
        return -expectation(log_masses, log_masses)

    @jit
    def kl(self, prior: "DepthDistribution", n_depths: int = N_DEPTHS) -> Float[Array, ""]:
        """KL[self || prior] = sum of q(L) ln q(L) / p(L); +inf where the prior has no mass and q(L) has.

        Args:
            prior: p(L).
            n_depths: how many depths are looked at, from 0 on.
        """
        log_q, log_p = self.log_masses(n_depths), prior.log_masses(n_depths)
        return expectation(log_q, log_q - jnp.where(log_q > -jnp.inf, log_p, 0.0))

    @jit
    def sample(self, key: Key[Array, ""], shape: tuple[int, ...] = (), n_depths: int = N_DEPTHS) -> Int[Array, "..."]:
        """Independent draws of L.

        Args:
            key: of the draws.
            shape: of the array of draws.
            n_depths: how many depths are looked at, from 0 on.
        """
        return jax.random.categorical(key, self.log_masses(n_depths), shape=shape)


def _depths(n_depths: int) -> Float[Array, " depths"]:
    return jnp.arange(n_depths, dtype=float)


def interval(inside: Bool[Array, " depths"]) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """The first and the last true position."""
    n = inside.shape[0]
    return jnp.argmax(inside), n - 1 - jnp.argmax(inside[::-1])


def expectation(log_masses: Float[Array, " depths"], values: Float[Array, " depths"]) -> Float[Array, ""]:
    """E[values] under the masses; what has no mass does not count, whatever its value."""
    masses = jnp.exp(log_masses)
    return jnp.sum(masses * jnp.where(masses > 0, values, 0.0))
