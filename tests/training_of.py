"""A training in one call, from arrays and names: for tests that need many alike."""

from leadline import Problem, Settings, Watch, train

WATCHED = ("report", "on_epoch", "on_call", "checkpoint_dir", "checkpoint_every")


def train_on(data, validation, likelihood, *, seeds, depth="normal", weight=None, start=None, **more):
    """One fit for each seed. The rows are (x, y), or (list of x, list of y) with one for each; so may be the depth."""
    watch = Watch(**{name: more.pop(name) for name in WATCHED if name in more})
    depths = depth if isinstance(depth, list) else [depth] * len(seeds)
    fits = [Settings(depth=one, seed=seed, **more) for one, seed in zip(depths, seeds, strict=True)]
    if not (_several(data) or _several(validation)):
        return train(Problem(data, validation, likelihood, weight), fits, watch=watch, start=start)
    problems = [Problem(_own(data, i), _own(validation, i), likelihood, weight) for i in range(len(data[0]))]
    return train(problems, fits, watch=watch, start=start)


def _several(rows):
    return isinstance(rows, tuple) and isinstance(rows[0], list)


def _own(rows, i):
    return tuple(part[i] for part in rows) if _several(rows) else rows
