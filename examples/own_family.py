"""A distribution over depth of your own: L ~ Binomial(6, p), where p is learned.

python examples/own_family.py
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from sklearn.datasets import make_moons

import leadline

DEEPEST = 6


@leadline.register
class BinomialDepth(leadline.DepthDistribution):
    """One array, which is learned, and one method: ln P(L) for L = 0 .. n - 1. All else follows from these."""

    name = "binomial"  # what `depth=` takes, and how a model file calls it
    logit: jax.Array  # floating-point arrays are learned, as numbers that may become anything: here p = sigmoid(logit)

    def log_masses(self, n_depths):
        depth = jnp.arange(n_depths)
        k = jnp.minimum(depth, DEEPEST)  # what `where` leaves out must be finite, too, for the gradient
        choose = gammaln(DEEPEST + 1.0) - gammaln(k + 1.0) - gammaln(DEEPEST - k + 1.0)
        log_p, log_not_p = jax.nn.log_sigmoid(self.logit), jax.nn.log_sigmoid(-self.logit)
        return jnp.where(depth <= DEEPEST, choose + k * log_p + (DEEPEST - k) * log_not_p, -jnp.inf)

    @classmethod
    def pair(cls, start):
        """What the name stands for: p(L), and the q(L) to start from."""
        return cls(jnp.array(-2.0, float)), cls(jnp.array(-1.0, float))


def main():
    x, y = make_moons(200, noise=0.1, random_state=0)
    small = {"recipe": "leadline", "temperature": 1.0, "width": 8, "n_restarts": 2, "max_iter": 150, "random_state": 0}

    # Beside the paper's family. The lower free energy explains the rows best for what it costs.
    for depth in ("binomial", "normal"):
        clf = leadline.DepthClassifier(depth=depth, **small).fit(x, y)
        q = ", ".join(f"{mass:.2f}" for mass in clf.depth_pmf_)
        print(f"{depth}: q(L) = {q}; free energy {clf.free_energy_:.1f}")
        clf.save(f"{depth}.safetensors")

    # A model file holds the name of a registered family. Another process imports this module, and reads it.
    again = leadline.load("binomial.safetensors")
    print("p =", jax.nn.sigmoid(again.model_.depth_posterior.logit).round(2), "for each restart")


if __name__ == "__main__":
    main()
