"""NUTS beside what training learns, depth by depth, on forty points: the same model, prior and rows for both.

python examples/nuts_beside_vi.py          # needs blackjax: pip install "leadline[bench]"
"""

from dataclasses import replace

import blackjax
import jax
import jax.numpy as jnp

import leadline
from leadline.datasets import spiral_parts

DEPTHS, N_DRAWS = jnp.arange(3), 300

# The model: depths 0, 1 and 2 with equal p(L), weights N(0, 1).
parts, likelihood = spiral_parts(omega=4, seed=1, n=40), leadline.CategoricalLikelihood(2)
(x, y), (x_test, y_test) = parts["train"], parts["test"]
depth = leadline.CategoricalDepth(2), leadline.CategoricalDepth(2)  # p(L), and the q(L) to start from
exact_prior = replace(leadline.RECIPES["leadline"], name="exact-prior", temperature=1.0, prior="fixed")
settings = leadline.Settings(depth=depth, recipe=exact_prior, width=3, n_restarts=1, epochs=3000)
learned = leadline.run_model(leadline.train(leadline.Problem((x, y), (x, y), likelihood), settings).model, 0)
by_vi = leadline.sample_weights(learned, n_samples=300, key=jax.random.key(0))

# The same model with room for these depths alone: no weights that nothing uses.
sizes = {"width": 3, "capacity": 2, "depth": depth, "recipe": exact_prior, "key": jax.random.key(1)[None]}
model = leadline.run_model(leadline.init_models(2, likelihood, **sizes), 0)
start = jax.tree.map(lambda a: a[0], leadline.sample_weights(model, n_samples=1, key=jax.random.key(2)))


@jax.jit
@jax.vmap
def chain(depth, key):
    """Draws from p(theta | L, y): ln p(y, theta, L | x) is all that NUTS needs."""
    target = lambda weights: leadline.log_joint(model, weights, x, y, depth=depth)  # noqa: E731
    first, second = jax.random.split(key)
    (state, parameters), _ = blackjax.window_adaptation(blackjax.nuts, target).run(first, start, N_DRAWS)

    def draw(state, key):
        state, _ = blackjax.nuts(target, **parameters).step(key, state)
        return state, state.position

    return jax.lax.scan(draw, state, jax.random.split(second, N_DRAWS))[1]


by_nuts = chain(DEPTHS, jax.random.split(jax.random.key(3), len(DEPTHS)))


def nll(model, weights, depth):
    outputs = leadline.outputs_by_depth(model, weights, x_test)[:, depth]
    log_p = jax.vmap(likelihood.log_prob, (0, None))(outputs, jnp.asarray(y_test))
    return -(jax.nn.logsumexp(log_p, axis=0) - jnp.log(len(log_p))).mean()


print("depth  q(L)   NLL by q(theta | L)   NLL by NUTS")
for depth, mass in enumerate(learned.depth_posterior.pmf(len(DEPTHS))):
    of_both = nll(learned, by_vi, depth), nll(model, jax.tree.map(lambda a, i=depth: a[i], by_nuts), depth)
    print(f"{depth:5d}  {mass:.2f}   {of_both[0]:19.3f}   {of_both[1]:11.3f}")
