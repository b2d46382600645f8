"""Commands on public data: the paper's spirals, its figures, the UCI sets, images."""

from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from leadline._checks import InvalidArgumentError
from leadline.callbacks import JsonLines
from leadline.cli.app import app, conclude, directory, say, say_what_is_begun
from leadline.cli.options import CheckpointEvery, Force, On, Out, Quiet, depth_of, names_of, numbers_of, takes_settings
from leadline.files.checkpoints import EVERY
from leadline.files.directories import RECORD
from leadline.files.lines import METRICS
from leadline.files.ours import is_ours
from leadline.likelihoods import CategoricalLikelihood
from leadline.studies.evaluate import run_fits
from leadline.studies.runners import Runner, runner_on
from leadline.studies.sweep import CHUNKS, Sweep
from leadline.training.progress import GridLine, ProgressLine
from leadline.training.run import Watch
from leadline.training.settings import Settings

PICTURE = "spiral.png"


@app.command()
@takes_settings()
def spiral(
    settings: Settings,
    omega: Annotated[float, typer.Option(help="Rotation speed of the spiral: 0 is easy, 30 is hard.")] = 10.0,
    out: Annotated[Path | None, typer.Option(help="Where record.json and spiral.png go.")] = None,
    checkpoint_every: CheckpointEvery = EVERY,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Train on the paper's spiral data.

    It writes a record and a picture.

    Examples: leadline spiral --omega 10 --epochs 1000 --out runs/ten; leadline spiral --omega 25 --temperature auto
    """
    from leadline.studies.spiral import draw, spiral_problem

    settings = settings.resolved(CategoricalLikelihood)
    problem = spiral_problem(omega, settings.seed)
    identity = settings.identity(problem)[:16]
    out = out or Path("runs") / f"spiral-omega{omega:g}-{identity[:8]}"
    console = Console(stderr=True)
    said = {"omega": omega, **settings.in_words(), "identity": identity}
    with directory(out, (RECORD, PICTURE, METRICS), force, said) as checkpoints:
        say_what_is_begun(checkpoints, quiet)
        with nullcontext() if quiet else ProgressLine(settings.epochs, console) as line:
            watch = Watch(line, JsonLines(out / METRICS), None, checkpoints, checkpoint_every)
            [fit] = run_fits([problem], [settings], watch)
        with nullcontext() if quiet else console.status("drawing ..."):
            beside = {PICTURE: draw(fit)}
        try:
            conclude(out, checkpoints, fit.record, beside, quiet)
        except InvalidArgumentError as error:  # no reason to lose the record
            say(f"leadline: note: {error}", err=True)
            conclude(out, checkpoints, fit.record, {}, quiet)
            with suppress(OSError):
                if is_ours(out / PICTURE):  # it is another record's
                    (out / PICTURE).unlink()


@app.command()
def reproduce(
    out: Out,
    omegas: Annotated[
        str | None, typer.Option(help="Rotation speeds: first:end or first:end:step, or numbers with commas between.")
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs at every speed, with the seeds 1, 2, ...")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes of each network. Default: the recipe's.")] = None,
    depth: Annotated[str | None, typer.Option(help="Families of q(L), with commas between.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipes, with commas between.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version: published, one run at 5, 10, .. 30; minutes on a CPU.")
    ] = False,
    on: On = "local",
    checkpoint_every: CheckpointEvery = EVERY,
    quiet: Quiet = False,
) -> None:
    """Train the paper's grid and set it beside the published numbers.

    All runs train side by side, on a GPU if there is one, else on all cores. Tables fill as runs finish; started again,
    the command goes on where it was stopped.

    The whole grid is 31 speeds x 5 runs x 2 families for each of published,written,leadline.

    Examples: leadline reproduce --out runs/paper --quick; leadline reproduce --out runs/paper --recipe published
    """
    from leadline.report.reproduction import names, write_comparison
    from leadline.studies.reproduce import QUICK, Grid

    speeds, chosen = numbers_of("omegas", omegas), {"recipes": names_of(recipe), "depths": names_of(depth)}
    given = _given(**chosen, omegas=speeds, runs=runs, epochs=epochs)
    grid, runner = replace(QUICK if quick else Grid(), **given), runner_on(on)
    with directory(out, [CHUNKS, *names(grid)]):
        if not train_sweep(grid.sweep(), out, runner, checkpoint_every, quiet):
            raise KeyboardInterrupt
        with nullcontext() if quiet else Console(stderr=True).status("drawing ..."):
            written = write_comparison(grid, out)
        if not quiet:
            say(f"wrote {', '.join(path.name for path in written)} to {out}")


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def train_sweep(sweep: Sweep, out: Path, runner: Runner | None, checkpoint_every: float, quiet: bool) -> bool:
    """What is left of a sweep; whether all is done."""
    n_left, n_all = sum(map(len, sweep.missing(out))), len(sweep.jobs)
    if not quiet:
        say(f"{n_all} runs, {n_all - n_left} of them done already, {n_left} to train")
    with nullcontext() if quiet or not n_left else GridLine() as line:
        return sweep.run(out, line, checkpoint_every, runner)


benchmarks = typer.Typer(help="Train on public data and write tables to compare.", no_args_is_help=True)
app.add_typer(benchmarks, name="benchmark")


@benchmarks.command()
def uci(
    data: Annotated[
        Path,
        typer.Option(help="The directory of the UCI sets with their standard splits.", show_default=False),
    ],
    out: Out,
    names: Annotated[str | None, typer.Option(help="Sets, with commas between. Default: all nine.")] = None,
    splits: Annotated[str | None, typer.Option(help="Like 0:20 or 0,3. Default: all of a set's.")] = None,
    depth: Annotated[
        str, typer.Option(help="Families of q(L) and fixed numbers of hidden layers, with commas between.")
    ] = "normal,poisson,0,1,2,3,4,5",
    epochs: Annotated[
        int | None,
        typer.Option(help="At most, of each network. Default: 5,000, or 62,500 steps (fixed depth: 50,000)."),
    ] = None,
    on: On = "local",
    checkpoint_every: CheckpointEvery = EVERY,
    quiet: Quiet = False,
) -> None:
    """Train on the UCI regression sets.

    The splits of a set train side by side; their rows are written when all are done, and comparison.md sets them beside
    published tables. Started again, the command goes on where it was stopped.

    Example: leadline benchmark uci --data uci --out results/uci --names yacht,energy --depth normal
    """
    from leadline.report.uci import write_comparison
    from leadline.studies.uci import UciSettings

    depths, some = tuple(depth_of(one) for one in depth.split(",")), numbers_of("splits", splits)
    given = _given(names=names_of(names), splits=some and tuple(map(int, some)))
    settings, runner = UciSettings(data, depths=depths, epochs=epochs, **given), runner_on(on)
    with directory(out, [CHUNKS, "comparison.md"]):
        done = train_sweep(settings.sweep(), out, runner, checkpoint_every, quiet)
        comparison = write_comparison(out)
        if not done:
            raise KeyboardInterrupt
        if not quiet:
            say(f"wrote {', '.join(f'{one}.csv' for one in depths)} to {out}")
            if comparison is not None:
                say(f"wrote {comparison}: beside the published tables")


@benchmarks.command()
def images(
    data: Annotated[
        Path,
        typer.Option(help="The directory of the sets: mnist, fashion-mnist, cifar10.", show_default=False),
    ],
    out: Out,
    names: Annotated[str | None, typer.Option(help="Sets, with commas between. Default: all.")] = None,
    depth: Annotated[str, typer.Option(help="Families of q(L), with commas between.")] = "normal",
    grid: Annotated[
        str, typer.Option(help="Fixed depths, with commas between: of Bayesian and of deterministic networks.")
    ] = "0,1,2,4,8",
    members: Annotated[
        int, typer.Option(help="Deterministic networks of an ensemble, of the best fixed depth; 0: no ensemble.")
    ] = 5,
    seeds: Annotated[str, typer.Option(help="Like 1:4 or 1,2,3.")] = "1:4",
    block: Annotated[str, typer.Option(help="convolution or residual-convolution.")] = "residual-convolution",
    width: Annotated[int, typer.Option(help="Channels of the last stage.")] = 128,
    epochs: Annotated[
        int | None, typer.Option(help="Of each network. Default: 60 of MNIST, 100 of Fashion-MNIST, 200 of CIFAR-10.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Of training and test part, at most. Default: all.")] = None,
    on: On = "local",
    checkpoint_every: CheckpointEvery = EVERY,
    quiet: Quiet = False,
) -> None:
    """Train on sets of images.

    Networks that learn their depth, a grid of fixed depths, deterministic networks and an ensemble of them; their rows
    are written as each is done, and comparison.md sets them beside published tables. Started again, the command goes on
    where it was stopped. The defaults are meant for a large GPU.

    Example: leadline benchmark images --data images --out results/images --names mnist --rows 2000 --width 16 --epochs
    10 --seeds 1 --grid 0,2
    """
    from leadline.report.images import write_comparison
    from leadline.studies.images import ImageSettings

    several = [tuple(map(int, numbers_of(name, text) or ())) for name, text in (("grid", grid), ("seeds", seeds))]
    how = {"grid": several[0], "seeds": several[1], "members": members, "block": block, "width": width}
    depths, runner = tuple(depth_of(one) for one in depth.split(",")), runner_on(on)
    settings = ImageSettings(data, depths=depths, epochs=epochs, rows=rows, **how, **_given(names=names_of(names)))
    with directory(out, [CHUNKS, "comparison.md"]):
        done = train_sweep(settings.sweep(), out, runner, checkpoint_every, quiet)
        ensembles = settings.ensembles(out) if done else None
        done = done and (ensembles is None or train_sweep(ensembles, out, runner, checkpoint_every, quiet))
        comparison = write_comparison(out)
        if not done:
            raise KeyboardInterrupt
        if not quiet and comparison is not None:
            say(f"wrote {comparison}: beside each other, and the published tables")
