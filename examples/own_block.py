"""A block of your own: a layer beside which the state goes on as it is, h + f(h).

python examples/own_block.py
"""

import numpy as np

import leadline
from leadline.datasets import spiral_parts
from leadline.network.blocks import Dense


@leadline.register
class Skipping(Dense):
    """A block says how rows `enter`, how a state takes a `step`, and how a head `read`s it off.

    Here two of these are Dense's: an affine layer with LeakyReLU(0.1), and an affine head. For layers of other kinds
    than Dense's see `leadline.network.blocks.base`: they need a `kl()`, and a key for what they draw.
    """

    name = "skipping"  # what `block=` takes, and how a model file calls it
    has_kernel = False  # the GPU's kernels know Dense alone

    def step(self, state, *, key, draw):
        further = super().step(state, key=key, draw=draw)  # [units, rows]: a data point is a column
        return further if state.shape != further.shape else state + further  # the first block changes the width


def main():
    parts = spiral_parts(omega=6, seed=0, n=200)
    small = {"depth": 4, "recipe": "leadline", "width": 8, "n_restarts": 2, "max_iter": 1000, "random_state": 0}
    for block in ("dense", "skipping"):
        clf = leadline.DepthClassifier(block=block, **small).fit(*parts["train"])
        x, y = parts["test"]
        nll = -np.log(clf.predict_proba(x)[np.arange(len(y)), y]).mean()
        print(f"{block}: free energy {clf.free_energy_:.0f}, test accuracy {clf.score(x, y):.2f}, NLL {nll:.3f}")
    clf.save("skipping.safetensors")
    again = leadline.load("skipping.safetensors")
    print("units in use, layer by layer:", again.effective_width()[0])


if __name__ == "__main__":
    main()
