"""Data sets."""

import numpy as np

from leadline._checks import check_at_least, check_integer

NOISE_SCALE = 0.02


def spiral(n: int, omega: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two interleaved spirals (Appendix A.1): n points x in the plane and their classes y, 0 or 1.

        t ~ U[0, 1],  u = sqrt(t),  s ~ U{-1, 1},  x ~ N(s u (cos(omega u pi/2), sin(omega u pi/2)), 0.02^2 I)

    The class y is 1 where s = 1, else 0.
    `omega` is the rotation speed: the larger, the harder.
    """
    check_integer("n", n, 1)
    check_at_least("omega", omega, 0)
    u = np.sqrt(rng.uniform(size=n))
    y = rng.integers(2, size=n)
    angle = omega * u * np.pi / 2
    mean = (2 * y - 1)[:, None] * u[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return mean + NOISE_SCALE * rng.standard_normal((n, 2)), y


def spiral_parts(
    omega: float, seed: int, n: int = 1024, n_test: int | None = None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The paper's three independent samples: `train`, `validation` and `test`; they depend on omega and seed alone.

    A larger test part (`n_test` rows instead of n) leaves the other two as they are.
    """
    check_integer("seed", seed, 0)
    rng = np.random.default_rng(seed)
    sizes = {"train": n, "validation": n, "test": n if n_test is None else n_test}
    return {part: spiral(size, omega, rng) for part, size in sizes.items()}
