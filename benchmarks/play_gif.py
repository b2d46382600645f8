"""The film in the README: a game of `leadline play`, without a server.

python benchmarks/play_gif.py --out docs/play.gif
"""

import argparse
from pathlib import Path

from leadline.server.film import film
from leadline.server.game import Game
from leadline.server.rules import Rules

MOST_BYTES = 2_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--omega", type=float, default=15)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--scale", type=float, default=0.85)
    parser.add_argument("--dark", action="store_true")
    arguments = parser.parse_args()
    rules = Rules(omega=arguments.omega, epochs=arguments.epochs)
    game = Game(rules)
    content = film(game.script, game.end, arguments.dark, n_frames=arguments.frames, scale=arguments.scale)
    if len(content) > MOST_BYTES:
        raise SystemExit(f"{len(content):,} bytes are too many; take fewer frames, or a smaller scale.")
    arguments.out.write_bytes(content)
    print(f"wrote {arguments.out}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
