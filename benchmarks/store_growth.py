"""Times of asking and telling as an experiment grows, without the model.

    python benchmarks/store_growth.py

Prints processor seconds of ``ask`` and ``tell`` at the first, the hundredth, ...
question of one experiment in each kind of store, on a mixed space. The questions are
points of a Sobol sequence, so that what is left is making, keeping and reading them.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from report import print_table, seconds, start

warnings.simplefilter("ignore")  # Ax of its own old names.

from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig  # noqa: E402

from botorch_pref.ax import PreferenceExperiment, Question  # noqa: E402

AT = (1, 100, 300, 500)
AROUND = 5
"""How many questions, up to the one that is named, are timed and averaged."""
STORES = {"SQLite": "growth.db", "JSON": "growth.json"}
PARAMETERS = [
    RangeParameterConfig(name="dose", parameter_type="float", bounds=(14, 22)),
    RangeParameterConfig(
        name="grind", parameter_type="float", bounds=(0.1, 10), scaling="log"
    ),
    RangeParameterConfig(name="ratio", parameter_type="int", bounds=(1, 4)),
    ChoiceParameterConfig(
        name="bean", parameter_type="str", values=["a", "b", "c"], is_ordered=False
    ),
]


def played(path: Path) -> dict[int, tuple[float, float]]:
    """Times of asking and of telling from some questions on, in seconds.

    Args:
        path: Of the store.
    """
    experiment = PreferenceExperiment.create(
        "growth", parameters=PARAMETERS, storage=path, initial=10**6
    )
    times: list[tuple[float, float]] = []

    def ask_and_tell() -> None:
        questions: list[Question] = []
        asking = seconds(lambda: questions.append(experiment.ask()))
        telling = seconds(lambda: experiment.tell(questions[0], winner=0))
        times.append((asking, telling))

    # What is imported and compiled at first does not count.
    for _ in range(max(AT) + AROUND):
        ask_and_tell()
    found = {}
    for at in AT:
        some = times[at : at + AROUND]
        asked, told = zip(*some, strict=True)
        found[at] = (sum(asked) / AROUND, sum(told) / AROUND)
    resumed = seconds(lambda: PreferenceExperiment.resume("growth", storage=path))
    found[-1] = (resumed, path.stat().st_size / 2**20)
    return found


def main() -> None:
    """Prints the table."""
    start("asking and telling without a model, seconds")
    rows = []
    for store, name in STORES.items():
        with TemporaryDirectory() as folder:
            found = played(Path(folder) / name)
        first = found[AT[0]]
        for at in AT:
            asked, told = found[at]
            rows.append([store, at, asked, told, asked / first[0], told / first[1]])
        resumed, size = found[-1]
        print(
            f"{store}: {max(AT) + AROUND} questions are resumed in {resumed:.2f} s "
            f"from {size:.1f} MiB"
        )
    print()
    print_table(["store", "question", "ask", "tell", "of first", "of first"], rows)


if __name__ == "__main__":
    main()
