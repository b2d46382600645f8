"""A record in a few lines of text."""

from typing import Any

BAR = 30


def summarise(record: dict[str, Any]) -> str:
    """Accuracy, likelihood, free energy, q(L) as a bar per depth, seconds."""
    terms = record["free_energy_terms"]
    lines = [
        f"test accuracy  {record['accuracy']:.2f} %",
        f"test NLL       {record['nll']:.4f} nats per point (calibration error {record['ece']:.3f})",
        f"free energy    {record['free_energy']:.1f} nats on the training data: {terms['expected_nll']:.1f} expected "
        f"NLL + {terms['depth_kl']:.2f} depth KL + {terms['weight_kl']:.1f} weight KL",
        f"depth          {record['depth_mean']:.2f} ± {record['depth_std']:.2f}",
    ]
    lowest, highest = record["depth_support"]
    for depth in range(lowest, highest + 1):
        mass = record["depth_pmf"][depth]
        lines.append(f"  L = {depth:<3d} {mass:6.3f}  {'█' * round(BAR * mass)}")
    restarts = f"{record['n_restarts']} restarts of " if record["n_restarts"] > 1 else ""
    lines.append(f"temperature    {record['temperature']:g}" + _tried(record))
    lines.append(
        f"units in use   {_widths(record['effective_width'])} of {record['width']} per layer, from the input on"
    )
    lines.append(f"seconds        {record['seconds']:.1f} ({restarts}{record['epochs']} epochs, {record['device']})")
    if record.get("interrupted"):
        lines.append(f"stopped by Ctrl-C after {record['epochs']} epochs")
    return "\n".join(lines)


def _tried(record: dict[str, Any]) -> str:
    """What the other temperatures gave, where there was a choice."""
    if "validation_nll" not in record:
        return ""
    tried = ", ".join(f"{t}: {nll:.4f}" for t, nll in record["validation_nll"].items())
    return f" (lowest validation NLL of {tried})"


def _widths(by_restart: list[list[int]]) -> str:
    """The range over the restarts, layer by layer; a restart that is less deep does not count."""
    deepest = max(len(widths) for widths in by_restart)
    layers = [[widths[i] for widths in by_restart if i < len(widths)] for i in range(deepest)]
    return ", ".join(str(w[0]) if min(w) == max(w) else f"{min(w)}-{max(w)}" for w in layers)
