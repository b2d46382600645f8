"""A record in a few lines of text."""

from typing import Any

BAR = 30


def summarise(record: dict[str, Any]) -> str:
    """Accuracy, likelihood, free energy, q(L) as a bar per depth, seconds."""
    lines = [
        f"test accuracy  {record['accuracy']:.2f} %",
        f"test NLL       {record['nll']:.4f} nats per point (calibration error {record['ece']:.3f})",
    ]
    return "\n".join(lines + _learned(record))


def summarise_table(record: dict[str, Any]) -> str:
    """The same for a fit to a table, where rows were kept apart to measure on."""
    lines = []
    if "accuracy" in record:
        guess = 100 * max(record["class_shares"].values())
        lines = [
            f"accuracy       {record['accuracy']:.2f} % of {record['n_test']} rows kept apart (the commonest class: "
            f"{guess:.1f} %)",
            f"NLL            {record['nll']:.4f} nats per row (calibration error {record['ece']:.3f})",
        ]
    elif "rmse" in record:
        lines = [
            f"RMSE           {record['rmse']:.4g} on {record['n_test']} rows kept apart (their mean alone: "
            f"{record['target_std']:.4g})",
            f"likelihood     {record['ll_mixture']:.4f} nats per row",
            f"coverage       {100 * record['coverage_50']:.0f}, {100 * record['coverage_90']:.0f} and "
            f"{100 * record['coverage_95']:.0f} % in intervals of 50, 90 and 95 %",
        ]
    return "\n".join(lines + _learned(record))


def summarise_comparison(rows: list[dict[str, Any]], n_rows: int, n_test: int) -> str:
    """A line per family, the lowest free energy marked."""
    best = min(row["free_energy"] for row in rows)
    columns = (f"free energy ({n_rows} rows)", f"test NLL ({n_test} rows)")
    lines = [f"{'depth':12s} {columns[0]:>26s} {columns[1]:>26s} {'E[L]':>14s} {'epochs':>7s}"]
    for row in rows:
        mark = "*" if row["free_energy"] == best else " "
        nll = "-" if row["nll"] is None else f"{row['nll']:.4f} ± {row['nll_error'] or 0:.4f}"
        lines.append(
            f"{row['depth']!s:12s} {row['free_energy']:15.1f} ± {row['free_energy_error']:6.1f}{mark} {nll:>26s} "
            f"{row['depth_mean']:7.2f} ± {row['depth_std']:.2f} {row['epochs']:7d}"
        )
    return "\n".join([*lines, "* lowest; the errors are those of the Monte Carlo estimate and of the test rows' mean"])


def _learned(record: dict[str, Any]) -> list[str]:
    """What every record says of the network."""
    terms = record["free_energy_terms"]
    lines = [
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
    return lines


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
