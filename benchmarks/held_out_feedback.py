"""Log-loss and accuracy of held-out answers of every kind, on real data.

    python benchmarks/held_out_feedback.py [--only wine fractions car travel]
        [--bigrams FOLDER] [--sushi FOLDER]

Prints one table. Log-loss is in nats an answer, of a density for ratings, which may be
below zero; "gain" is what a model saves against the first one of its data. Standard
errors take the answers of one rater as dependent. Accuracy is the share of choices or
levels predicted, and of pairs put right for rankings. Comparisons of several raters
(the cars) have a script of their own, ``raters.py``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from held_out_choices import car_rows, travel_rows
from held_out_rankings import sushi_rows
from held_out_ratings import fraction_rows, wine_rows
from held_out_scores import HEADER, told
from held_out_strengths import bigram_rows
from report import print_table, start

SHIPPED: dict[str, Callable[[], list[list[object]]]] = {
    "wine": wine_rows,
    "fractions": fraction_rows,
    "travel": travel_rows,
    "car": car_rows,
}
IN_FOLDERS: dict[str, Callable[[str], list[list[object]]]] = {
    "bigrams": bigram_rows,
    "sushi": sushi_rows,
}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=SHIPPED, default=list(SHIPPED))
    for name in IN_FOLDERS:
        parser.add_argument(f"--{name}", metavar="FOLDER")
    options = parser.parse_args()
    start("held-out answers of every kind")
    rows = [row for name in options.only for row in SHIPPED[name]()]
    for name, of_folder in IN_FOLDERS.items():
        folder = getattr(options, name)
        if folder is None:
            print(f"{name}: skipped, give its folder with --{name}")
        else:
            rows += of_folder(folder)
    print()
    # Three significant digits would not tell models apart.
    print_table(HEADER, [[told(cell) for cell in row] for row in rows])


if __name__ == "__main__":
    main()
