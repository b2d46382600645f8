"""Pictures and films of a game, drawn without a browser."""

from collections.abc import Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from leadline.server.game import CURVES, Detail, Frame, Game
from leadline.server.rules import REACH, Rules

MOST_FRAMES = 72
"""Of a film, and how long each is shown, the last for LAST, in milliseconds."""

EACH, LAST = 100, 3000

SIZE = (720, 405)
"""Of a film; a picture is twice as large."""

LEVELS = 9
"""Of the probability in a film: bands take less room than shades."""


class Inks(NamedTuple):
    """Of a picture: those of the page."""

    paper: str
    ink: str
    muted: str
    line: str
    zero: str
    one: str
    depth: str
    prior: str


LIGHT = Inks("#ffffff", "#1b1f24", "#59636e", "#d8dde3", "#2166ac", "#b2182b", "#c75100", "#bdbdbd")
DARK = Inks("#14171b", "#e8eaed", "#a2abb5", "#363c44", "#62a8ee", "#ff7d78", "#ff9d57", "#59616b")


class Seen(NamedTuple):
    """A game at one moment: its frame, and what else is drawn."""

    frame: Frame
    rules: Rules
    points: tuple[np.ndarray, np.ndarray]
    rows: list[list[float]]


def seen(game: Game, detail: Detail) -> Seen:
    """What there is to see of it now."""
    return Seen(game.frame(detail), game.rules, game.points, list(game.rows))


def picture(game: Game, dark: bool = False) -> bytes:
    """A PNG of the game as it is."""
    return _encoded(drawn(seen(game, Detail(192, 32)), DARK if dark else LIGHT, 2), format="PNG", optimize=True)


def film(
    script: Sequence[tuple[int, Rules]],
    end: int,
    dark: bool = False,
    *,
    n_frames: int = MOST_FRAMES,
    scale: float = 1.0,
) -> bytes:
    """A GIF of a game, which is played again.

    Args:
        script: what was changed after which epoch, as `Game.script` has it.
        end: the last epoch.
        dark: whether on dark paper.
        n_frames: at most.
        scale: pixels for one of SIZE.
    """
    inks, game, changes = DARK if dark else LIGHT, Game(script[0][1]), list(script[1:])
    moments = []
    for epoch in sorted({round(at) for at in np.linspace(0, end, n_frames)}):
        while True:
            until = min([epoch, *(at for at, _ in changes)])
            while game.epoch < until:
                game.step(min(1000, until - game.epoch))
            if not changes or changes[0][0] > game.epoch:
                break
            game.change(changes.pop(0)[1])
        moments.append(seen(game, Detail(64, 16)))
    palette, places = _palette(inks), max(len(one.frame.by_depth) for one in moments)
    images = (drawn(one, inks, scale, LEVELS, places) for one in moments)
    flat = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    times = [EACH] * (len(flat) - 1) + [LAST]
    more = {"save_all": True, "append_images": flat[1:], "duration": times, "loop": 0, "optimize": False}
    return _encoded(flat[0], format="GIF", **more)


def _encoded(image: Image.Image, **how: Any) -> bytes:
    file = BytesIO()
    image.save(file, **how)
    return file.getvalue()


def drawn(moment: Seen, inks: Inks, scale: float, levels: int = 256, places: int = 0) -> Image.Image:
    """The plane with its points, the depths with their regions, and how E[L] went.

    Args:
        moment: of a game.
        inks: light or dark.
        scale: pixels for one of SIZE.
        levels: of the probability.
        places: for so many depths there is room; as many as there are, at least.
    """
    sheet = _Sheet(inks, 2 * scale)  # twice as fine, and then made smaller: lines get smooth edges
    frame, rules, points, rows = moment
    sheet.text((18, 12), f"ω = {rules.omega:g}", 15, bold=True)
    said = f"epoch {frame.epoch:,} of {frame.end:,}"
    sheet.text((362, 14), said, 12, inks.muted, anchor="ra")
    sheet.field((18, 42, 344), frame.mixture, levels)
    sheet.points((18, 42, 344), *points, own=len(rules.own))
    q, p = frame.depth_posterior, frame.depth_prior
    mean = float(q @ np.arange(len(q)))
    sheet.text((386, 12), "depth", 15, bold=True)
    sheet.text((702, 14), f"E[L] = {mean:.2f},  {frame.accuracy:.0f} % right", 12, inks.muted, anchor="ra")
    places = max(places, len(q))
    step = min(316 / places, 62)
    tile, top = step - 5, max(0.65, q.max(), p.max())
    for depth in range(len(q)):
        x = 386 + depth * step
        for mass, inset, ink in ((p[depth], 0.04, inks.prior), (q[depth], 0.22, inks.depth)):
            sheet.box((x + inset * tile, 132 - 88 * mass / top, x + (1 - inset) * tile, 132), ink)
        if q[depth] > 0:
            sheet.field((x, 138, tile), frame.by_depth[depth], levels, 0.25 + 0.75 * min(1, q[depth] / 0.3))
        else:
            sheet.box((x, 138, x + tile, 138 + tile), inks.line, 0.3)
        sheet.text(
            (x + tile / 2, 142 + tile),
            f"L = {depth}" if places < 9 or depth == 0 else f"{depth}",
            9.5,
            inks.ink,
            anchor="ma",
        )
        sheet.text(
            (x + tile / 2, 154 + tile), f"{100 * q[depth]:.0f} %" if q[depth] else "–", 9.5, inks.muted, anchor="ma"
        )
    sheet.box((386, 132, 386 + places * step - 5, 132.8), inks.muted)
    _depth_curve(sheet, inks, rows, frame.end)
    return sheet.image.resize([round(scale * side) for side in SIZE], Image.Resampling.LANCZOS)


def _depth_curve(sheet: "_Sheet", inks: Inks, rows: list[list[float]], end: int) -> None:
    """E[L] with its band of one standard deviation."""
    left, right, top, bottom = 404, 702, 258, 372
    columns = dict(zip(CURVES, np.array(rows).reshape(-1, len(CURVES)).T, strict=True))
    mean, std = columns["depth_mean"], columns["depth_std"]
    most = max(2.0, float((mean + std).max(initial=0.0)) * 1.05)
    ticks = range(0, int(most) + 1, -(-int(most) // 4))
    sheet.text((386, 238), "E[L] ± sd over the epochs", 10, inks.muted)
    for tick in ticks:
        y = bottom - (bottom - top) * tick / most
        sheet.box((left, y, right, y + 0.6), inks.line)
        sheet.text((left - 6, y), f"{tick}", 9.5, inks.muted, anchor="rm")
    for share in (0, 1):
        at = left if share == 0 else right
        sheet.text((at, bottom + 6), f"{share * end:,}", 9.5, inks.muted, anchor="la" if share == 0 else "ra")
    if len(mean) < 2:
        return
    x = left + (right - left) * columns["epoch"] / max(end, 1)
    y, above, below = (bottom - (bottom - top) * a / most for a in (mean, mean + std, np.maximum(mean - std, 0)))
    sheet.shape(np.concatenate([np.stack([x, above], 1), np.stack([x, below], 1)[::-1]]), inks.depth, 0.2)
    sheet.line(np.stack([x, y], 1), inks.depth, 1.6)


class _Sheet:
    """Paper to draw on, with the units of SIZE."""

    def __init__(self, inks: Inks, scale: float):
        self.inks, self.scale = inks, scale
        width, height = (round(scale * side) for side in SIZE)
        self.image = Image.new("RGB", (width, height), inks.paper)
        self.pen = ImageDraw.Draw(self.image)

    def _at(self, numbers: Any) -> list[float]:
        return [float(self.scale * a) for a in np.ravel(numbers)]

    def text(
        self, at: tuple[float, float], words: str, size: float, ink: str = "", *, bold: bool = False, anchor: str = "la"
    ) -> None:
        """Words."""
        font = _font(bold, size * self.scale)
        x, y = self._at(at)
        self.pen.text((x, y), words, fill=ink or self.inks.ink, font=font, anchor=anchor)

    def box(self, corners: tuple[float, float, float, float], ink: str, alpha: float = 1.0) -> None:
        """A full rectangle; one of no height is not there."""
        if corners[3] > corners[1]:
            self.pen.rectangle(self._at(corners), fill=_mixed(self.inks.paper, ink, alpha))

    def line(self, places: np.ndarray, ink: str, width: float) -> None:
        """From place to place."""
        self.pen.line(self._at(places), fill=ink, width=round(width * self.scale), joint="curve")

    def shape(self, places: np.ndarray, ink: str, alpha: float) -> None:
        """What lies inside."""
        self.pen.polygon(self._at(places), fill=_mixed(self.inks.paper, ink, alpha))

    def field(self, square: tuple[float, float, float], plane: np.ndarray, levels: int, alpha: float = 1.0) -> None:
        """A plane of probabilities in a square (left, top, side), with the line of 1/2."""
        left, top, side = (round(self.scale * a) for a in square)
        fine = Image.fromarray(plane[::-1].astype(np.float32)).resize((side, side), Image.Resampling.BICUBIC)
        p = np.asarray(fine).clip(0, 1)
        colours = _shades(self.inks, levels, alpha)[np.rint(p * (levels - 1)).astype(np.intp)]
        sure = p > 0.5
        edge = np.zeros_like(sure)
        edge[:-1] |= sure[1:] != sure[:-1]
        edge[:, :-1] |= sure[:, 1:] != sure[:, :-1]
        colours[edge] = _rgb(_mixed(self.inks.paper, self.inks.ink, 0.75 * alpha))
        self.image.paste(Image.fromarray(colours), (left, top))

    def points(self, square: tuple[float, float, float], x: np.ndarray, y: np.ndarray, own: int) -> None:
        """Of both classes; the last are somebody's own."""
        left, top, side = square
        places = np.stack(
            [left + side * (x[:, 0] + REACH) / (2 * REACH), top + side * (REACH - x[:, 1]) / (2 * REACH)], 1
        )
        for i, (place, label) in enumerate(zip(places, y, strict=True)):
            is_own = i >= len(y) - own
            at, radius = self._at(place), self.scale * (3.6 if is_own else 1.5)
            box, ink = (
                [at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius],
                self.inks.one if label else self.inks.zero,
            )
            self.pen.ellipse(box, fill=ink, outline=self.inks.paper if is_own else None, width=round(self.scale))


@cache
def _font(bold: bool, size: float) -> ImageFont.FreeTypeFont:
    """The one that comes with matplotlib."""
    import matplotlib

    name = f"DejaVuSans{'-Bold' if bold else ''}.ttf"
    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name), round(size))


def _rgb(ink: str) -> tuple[int, int, int]:
    return int(ink[1:3], 16), int(ink[3:5], 16), int(ink[5:7], 16)


def _mixed(paper: str, ink: str, alpha: float) -> str:
    both = zip(_rgb(paper), _rgb(ink), strict=True)
    return "#" + "".join(f"{round(a + alpha * (b - a)):02x}" for a, b in both)


def _shades(inks: Inks, levels: int, alpha: float) -> np.ndarray:
    """The colour of every level of the probability."""
    p = np.linspace(0, 1, levels)
    return np.array(
        [_rgb(_mixed(inks.paper, inks.one if a > 0.5 else inks.zero, 0.5 * alpha * abs(2 * a - 1))) for a in p],
        np.uint8,
    )


def _palette(inks: Inks) -> Image.Image:
    """The colours of a film: those that are drawn, and what their edges are mixed of."""
    names = {inks.paper} | {_mixed(inks.paper, inks.line, share) for share in (0.3, 1)}
    names |= {
        _mixed(inks.paper, ink, share) for ink in (inks.ink, inks.muted, inks.depth, inks.prior) for share in STEPS
    }
    names |= {_mixed(inks.paper, ink, share) for ink in (inks.zero, inks.one) for share in (0.75, 1)}
    names |= {_mixed(inks.paper, inks.depth, 0.2)}
    shades = [_shades(inks, LEVELS, alpha).tolist() for alpha in (0.4, 0.7, 1)]
    colours = {tuple(_rgb(name)) for name in names} | {tuple(one) for several in shades for one in several}
    palette = Image.new("P", (1, 1))
    palette.putpalette([number for colour in sorted(colours) for number in colour])
    return palette


STEPS = (0.25, 0.5, 0.75, 1)
