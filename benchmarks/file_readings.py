"""Public files of preferences, where they are, and a reading of each by pandas.

None is kept here. `python benchmarks/files.py FOLDER/*` compares what the command reads
in those that are saved under these names with what a few lines say of each, which use
nothing of the package: the duels, choices and ratings, and how often each is there.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

Statements = Counter[tuple[Hashable, ...]]
"""Duels as (winner, losers), ties as ("=", both), ratings as (item, rater, rating)."""

BLANK = {"", "nan", "None", "NA"}


@dataclass(frozen=True)
class PublicFile:
    """A file of a public repository, the options of the command, and its statements."""

    repository: str
    path: str
    read: Callable[[Path], Iterable[tuple[Hashable, ...]]]
    options: Mapping[str, str] = field(default_factory=dict)


def statements(answers: pd.DataFrame) -> Statements:
    """Counts what a table of answers says."""
    if "rating" in answers:
        rater = answers["rater"] if "rater" in answers else [""] * len(answers)
        return Counter(zip(answers["item"], rater, answers["rating"], strict=True))
    count: Statements = Counter()
    choice = answers["choice"] if "choice" in answers else [None] * len(answers)
    names = [row if pd.isna(name) else name for row, name in enumerate(choice)]
    for _, rows in answers.groupby(names):
        winner, tie, number = rows[["winner", "tie", "count"]].iloc[0]
        losers = tuple(sorted(rows["loser"]))
        key = ("=", *sorted((winner, *losers))) if tie else (winner, losers)
        count[key] += number
    return count


def duel(first: str, second: str, lead: float) -> list[tuple[Hashable, ...]]:
    """Says who won: the first item where its lead is positive."""
    ends = str(first).strip(), str(second).strip()
    if ends[0] == ends[1] or BLANK & {*ends} or pd.isna(lead):
        return []
    if lead == 0:
        return [("=", *sorted(ends))]
    return [(ends[lead < 0], (ends[lead > 0],))]


def ranking(places: Sequence[Sequence[str]]) -> list[tuple[Hashable, ...]]:
    """Says who was chosen from whom, place by place, as Plackett and Luce have it."""
    behind, said = [item for place in places for item in place], []
    if len(places) == 1 and len(behind) == 2:
        return [("=", *sorted(behind))]
    for place in places[:-1]:
        said += [(a, tuple(sorted(b for b in behind if b != a))) for a in place]
        behind = behind[len(place) :]
    return said


def by_rank(pairs: Iterable[tuple[float, str]]) -> list[list[str]]:
    """Returns items by their ranks."""
    table = pd.DataFrame(pairs, columns=["rank", "item"]).dropna()
    return [[*rows] for _, rows in table.groupby("rank")["item"]]


def _csv(path: Path, **options: Any) -> list[dict[str, Any]]:
    table = pd.read_csv(path, skipinitialspace=True, **options)
    return table.to_dict("records")


def _duels(
    first: str, second: str, lead: Callable[[dict[str, Any]], float], **options: Any
) -> Callable[[Path], Iterable[tuple[Hashable, ...]]]:
    """Returns a reading of a table with two items a row."""

    def read(path: Path) -> Iterable[tuple[Hashable, ...]]:
        for row in _csv(path, **options):
            yield from duel(row[first], row[second], lead(row))

    return read


def _sides(column: str, first: Any, second: Any) -> Callable[[dict[str, Any]], float]:
    """Returns the lead of the first item, by a column that says who won."""
    return lambda row: {first: 1.0, second: -1.0}.get(
        row[column], float("nan") if row[column] in ("No Contest",) else 0.0
    )


def _football(path: Path) -> Iterable[tuple[Hashable, ...]]:
    for game in json.loads(path.read_text())["matches"]:
        home, away = game["score"]["ft"]
        yield from duel(game["team1"], game["team2"], home - away)


def _chess(path: Path) -> Iterable[tuple[Hashable, ...]]:
    leads = {"1-0": 1.0, "0-1": -1.0, "1/2-1/2": 0.0}
    for game in path.read_text().split("[Event ")[1:]:
        tags = dict(re.findall(r'\[(\w+) "(.*)"\]', game))
        lead = leads.get(tags["Result"], float("nan"))
        yield from duel(tags["White"], tags["Black"], lead)


def _races(path: Path) -> Iterable[tuple[Hashable, ...]]:
    table = pd.read_csv(path)
    table["Position"] = pd.to_numeric(table["Position"], errors="coerce")
    for _, race in table.groupby("Track"):
        pairs = zip(race["Position"], race["Driver"], strict=True)
        yield from ranking(by_rank(pairs))


def _jurors(path: Path) -> Iterable[tuple[Hashable, ...]]:
    for _, rows in pd.read_csv(path).groupby("voting_country"):
        for number in range(5):
            pairs = zip(rows[f"juror_{number}"], rows["country"], strict=True)
            yield from ranking(by_rank(pairs))


def _orders(*columns: str) -> Callable[[Path], Iterable[tuple[Hashable, ...]]]:
    """Returns a reading of rows whose items are in the order of columns."""

    def read(path: Path) -> Iterable[tuple[Hashable, ...]]:
        for row in _csv(path):
            yield from ranking([[row[c]] for c in columns if not pd.isna(row[c])])

    return read


def _translations(path: Path) -> Iterable[tuple[Hashable, ...]]:
    for row in _csv(path):
        pairs = [(row[f"system{i}rank"], row[f"system{i}Id"]) for i in range(1, 6)]
        yield from ranking(by_rank(pairs))


def _images(path: Path) -> Iterable[tuple[Hashable, ...]]:
    for entry in json.loads(path.read_text()):
        pairs = zip(entry["ranking"], entry["generations"], strict=True)
        yield from ranking(by_rank(pairs))


def _three_people(path: Path) -> Iterable[tuple[Hashable, ...]]:
    for row in _csv(path):
        for number in "123":
            lead = {"model_1": 1.0, "model_2": -1.0}.get(row[f"winner{number}"], 0.0)
            yield from duel(row["model_1"], row["model_2"], lead)


def _responses(path: Path) -> Iterable[tuple[Hashable, ...]]:
    for line in path.read_text().splitlines():
        row = json.loads(line)
        lead = {0: 1.0, 1: -1.0, 2: 0.0}[row["label"]]
        yield from duel(row["response 1"], row["response 2"], lead)


def _orders_of_preflib(path: Path) -> Iterable[tuple[Hashable, ...]]:
    text = path.read_text()
    names = dict(re.findall(r"# ALTERNATIVE NAME (\d+): (.*)", text))
    for count, order in re.findall(r"^(\d+): (.*)$", text, re.MULTILINE):
        items = [[names[number]] for number in re.findall(r"\d+", order)]
        yield from ranking(items) * int(count)


def _ranks_of_columns(path: Path) -> Iterable[tuple[Hashable, ...]]:
    for row in _csv(path):
        ranks = [(r, n) for n, r in row.items() if not isinstance(r, str)]
        yield from ranking(by_rank(ranks))


def _ballots(path: Path) -> Iterable[tuple[Hashable, ...]]:
    for row in _csv(path, sep=";"):
        yield from ranking(by_rank((row[item], item) for item in "abcdefg"))


def _ratings(
    item: str, rating: str, rater: str | None = None, **options: Any
) -> Callable[[Path], Iterable[tuple[Hashable, ...]]]:
    """Returns a reading of a table with a row for each rating."""

    def read(path: Path) -> Iterable[tuple[Hashable, ...]]:
        for row in _csv(path, **options):
            if not pd.isna(row[rating]):
                name = "" if rater is None else str(row[rater])
                yield str(row[item]), name, float(row[rating])

    return read


def _opinions(path: Path) -> Iterable[tuple[Hashable, ...]]:
    for line, row in enumerate(path.read_text().splitlines(), 1):
        for subject, cell in enumerate(row.split(","), 1):
            if cell.strip() not in BLANK:
                yield str(line), str(subject), float(cell)


def _won(row: dict[str, Any]) -> float:
    return 1.0


def _named_winner(row: dict[str, Any]) -> float:
    return 1.0 if row["winner_name"].strip() == row["project_a"].strip() else -1.0


FILES: dict[str, PublicFile] = {
    "SeriesPost.csv": PublicFile(
        "chadwickbureau/baseballdatabank",
        "core/SeriesPost.csv",
        _duels("teamIDwinner", "teamIDloser", _won),
    ),
    "ncaa.csv": PublicFile(
        "woseibonsu/marchMadnessPredictor",
        "NCAATourneyCompactResults.csv",
        _duels("WTeamID", "LTeamID", _won),
    ),
    "ufc-master.csv": PublicFile(
        "shortlikeafox/ultimate_ufc_dataset",
        "ufc-master.csv",
        _duels("R_fighter", "B_fighter", _sides("Winner", "Red", "Blue")),
    ),
    "epl-2014.csv": PublicFile(
        "kaspersgit/Premier-League",
        "historic_data/2014.csv",
        _duels("HomeTeam", "AwayTeam", lambda row: row["FTHG"] - row["FTAG"]),
    ),
    "openfootball-de1.json": PublicFile(
        "openfootball/football.json", "2012-13/de.1.json", _football
    ),
    "blackmar.pgn": PublicFile("cfd/Data-Mining---Chess", "blackmar.pgn", _chess),
    "f1-2022.csv": PublicFile(
        "toUpperCase78/formula1-datasets",
        "Formula1_2022season_raceResults.csv",
        _races,
        {"rater": "Track"},
    ),
    "f1-dotd.csv": PublicFile(
        "toUpperCase78/formula1-datasets",
        "Formula1_2022season_driverOfTheDayVotes.csv",
        _orders(*(f"{place} Place" for place in ("1st", "2nd", "3rd", "4th", "5th"))),
    ),
    "eurovision2021.csv": PublicFile(
        "kallewesterling/eurovision-2021-votes", "data/votes.csv", _jurors
    ),
    "wmt-fr-en.csv": PublicFile(
        "keisks/wmt-trueskill", "data/sample-fr-en-test.csv", _translations
    ),
    "twostage-human.csv": PublicFile(
        "Tsunefuji/two-stage-LLM-as-a-judge", "human_eval.csv", _three_people
    ),
    "pelican.csv": PublicFile(
        "JannesKlaas/pelican-arena",
        "comparisons.csv",
        _duels("model_a", "model_b", _sides("winner", "a", "b")),
    ),
    "pelican-judge.csv": PublicFile(
        "JannesKlaas/pelican-arena",
        "judge_results.csv",
        _duels("model_a", "model_b", _sides("gemini-2.5-flash", "a", "b")),
        {"winner": "gemini-2.5-flash"},
    ),
    "fil-comparisons.csv": PublicFile(
        "davidgasquez/fil-retro-pgf-3-ai-badgeholder",
        "comparisons.csv",
        _duels("project_a", "project_b", _named_winner),
        {"winner": "winner_name"},
    ),
    "hdrvdc-bright.csv": PublicFile(
        "gfxdisp/HDR-VDC",
        "data/bright_display_experiment_data.csv",
        _duels("condition_1", "condition_2", _sides("selection", 1, 0)),
        {"first_won": "1"},
    ),
    "autoj-test.jsonl": PublicFile(
        "GAIR-NLP/auto-j",
        "data/test/testdata_pairwise.jsonl",
        _responses,
        {"first_won": "0"},
    ),
    "imagereward-test.json": PublicFile("THUDM/ImageReward", "data/test.json", _images),
    "koniq.csv": PublicFile(
        "subpic/koniq",
        "metadata/koniq10k_distributions_sets.csv",
        _ratings("image_name", "MOS"),
    ),
    "musicleague-votes.csv": PublicFile(
        "Purecaffeine/music-league",
        "data/votes.csv",
        _ratings("Spotify URI", "Points Assigned", "Voter ID"),
    ),
    "mutunes.csv": PublicFile(
        "2birds/mutunes",
        "comparisons.csv",
        _duels("w", "l", _won, header=None, skiprows=1, names=[*"nwlmxy"]),
    ),
    "nswla3.soi": PublicFile(
        "fleverest/nswla_preflib",
        "00058 - nswla/00058-00000003.soi",
        _orders_of_preflib,
    ),
    "rcv-votes.csv": PublicFile(
        "hbiede/Ranked-Choice-Voting", "data/votes.csv", _ranks_of_columns
    ),
    "irv-votes.csv": PublicFile(
        "brandondsherman/instantRunOff",
        "data/votes.csv",
        _orders(*(f"V{number}" for number in range(1, 6))),
        {"order": "V1"},
    ),
    "p910-sample.csv": PublicFile(
        "Netflix/sureal", "itut_p910_demo/sample_data.csv", _opinions, {"first": "line"}
    ),
    "kemeny.csv": PublicFile(
        "MattWallace1/Kemeny-Optimal-Rankings", "preferences.csv", _ranks_of_columns
    ),
    "schulze.csv": PublicFile(
        "Sasha-BabyBird/elections_schulze", "ballots.csv", _ballots
    ),
    "movielens-data.csv": PublicFile(
        "ConnorFieldUser/MovieLens-Database",
        "data.csv",
        _ratings("i", "r", "u", sep="\t", header=None, names=[*"uirt"]),
        {"first": "2", "rating": "3", "rater": "1"},
    ),
}
"""Files by the names under which they are saved."""
