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
    lines.append(f"seconds        {record['seconds']:.1f} ({record['epochs']} epochs, {record['device']})")
    if record.get("interrupted"):
        lines.append(f"stopped by Ctrl-C after {record['epochs']} epochs")
    return "\n".join(lines)
