"""How tests compile what they run once or twice: in about half the time, to slower code."""

from functools import partial

import equinox as eqx

BRIEFLY = {"xla_backend_optimization_level": 0}

jit_briefly = partial(eqx.filter_jit, compiler_options=BRIEFLY)
