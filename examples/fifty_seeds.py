"""Fifty seeds side by side in one program, followed while they train, and their histories as one table.

python examples/fifty_seeds.py
"""

import leadline
from leadline.datasets import spiral_parts

SEEDS = range(50)


def main():
    # Each fit has data of its own, and a random stream of its own: what comes of it does not depend on its neighbours.
    parts = [spiral_parts(omega=3, seed=seed, n=64) for seed in SEEDS]
    likelihood = leadline.CategoricalLikelihood(2)
    problems = [leadline.Problem(part["train"], part["validation"], likelihood) for part in parts]
    settings = [leadline.Settings(width=8, n_restarts=1, epochs=300, seed=seed) for seed in SEEDS]

    def tell(now):
        """Called after every epoch; `by_run` says where each run is."""
        if now.epoch % 100 == 0:
            depths = [one.depth_mean for one in now.by_run()]
            print(f"epoch {now.epoch}: E[L] from {min(depths):.2f} to {max(depths):.2f}, NLL {now.nll:.3f}")

    trained = leadline.train(problems, settings, watch=leadline.Watch(on_epoch=tell))

    # A row for every epoch and run.
    frame = trained.to_frame()
    last = frame[frame.epoch == trained.epochs].set_index("seed")
    print(last[["validation_nll", "depth_mean", "free_energy"]].describe().loc[["mean", "std", "min", "max"]].round(2))
    print("the five best seeds:", last.validation_nll.nsmallest(5).index.tolist())


if __name__ == "__main__":
    main()
