"""A likelihood of your own: numbers with logistic noise, whose tails are heavier than a Gaussian's.

python examples/own_likelihood.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import logistic

import leadline
from leadline.likelihoods.mixture import Mixture

WIDTH = np.sqrt(3) / np.pi  # of a logistic distribution with standard deviation 1


class LogisticMixture(Mixture):
    """What is predicted: a mixture over weights, depths and restarts, whose components have means and deviations."""

    def component_cdf(self, y):
        return logistic.cdf(y, self.mean, WIDTH * self.scale)

    def log_densities(self, y):
        return logistic.logpdf(y, self.mean, WIDTH * self.scale)


@leadline.register
class LogisticNoise(leadline.GaussianLikelihood):
    """y ~ Logistic(output, scale): the learned scale, one for each target, is that of `GaussianLikelihood`."""

    name = "logistic"
    mixture = LogisticMixture  # what prediction needs

    def log_prob(self, output, y):  # what training needs: ln p(y | output), a number for every row
        mean, scale = self.mean_and_scale(output)
        return jnp.sum(jax.scipy.stats.logistic.logpdf(y, mean, WIDTH * scale), axis=-1)


def main():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (300, 1))
    y = np.sin(3 * x[:, 0]) + rng.logistic(scale=0.15, size=300)
    small = {"recipe": "leadline", "width": 8, "n_restarts": 2, "max_iter": 1000, "random_state": 0}
    for noise in ("constant", "logistic"):  # what is made of a Gaussian's is a `noise`, all else a `likelihood`
        reg = leadline.DepthRegressor(noise=noise, **small).fit(x[:200], y[:200])
        low, high = reg.predict_interval(x[200:], coverage=0.9).T
        inside = np.mean((y[200:] >= low) & (y[200:] <= high))
        said = f"{reg.log_likelihood(x[200:], y[200:]).mean():.3f} nats per test row, noise {reg.noise_scale_:.2f}"
        print(f"{noise}: {said}, {inside:.0%} in the 90 % intervals, free energy {reg.free_energy_:.1f}")
    reg.save("logistic.safetensors")
    print("read again:", leadline.load("logistic.safetensors").predict(x[:3]).round(2))


if __name__ == "__main__":
    main()
