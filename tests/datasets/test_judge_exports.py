"""Answers of language models that judge, in the files that their tools write."""

import json
from pathlib import Path

import pandas as pd
import pytest

from botorch_pref import FeedbackError
from botorch_pref.datasets import NamedColumns, read_answers


def duels(path: Path, **named: str) -> list[tuple[str, str, str, int]]:
    """Returns the winners, losers and counts of a file."""
    answers = read_answers(path, NamedColumns(**named)).answers
    rows = answers[["winner", "loser", "tie", "count"]].to_numpy().tolist()
    return [(w, "=" if tie else ">", x, n) for w, x, tie, n in rows]


def test_scores_of_phoenix_are_objects(tmp_path: Path) -> None:
    # evaluate_dataframe of arize-phoenix-evals adds a dict for each evaluator
    # (https://arize.com/docs/ax/integrations/evaluation-integrations/phoenix-evals).
    # Each pair is asked in both orders; an evaluator that failed has no label.
    names = ["model_a", "model_b"]
    table = pd.DataFrame([["x", "y"], ["y", "x"], ["x", "y"]], columns=names)
    table["preference_score"] = [
        {"name": "preference", "score": 1.0, "label": "A", "explanation": "B is long"},
        {"name": "preference", "score": 0.0, "label": "B", "explanation": "so, x"},
        {"name": "preference", "score": None, "label": None, "explanation": None},
    ]
    path = tmp_path / "evals.jsonl"
    table.to_json(path, orient="records", lines=True)
    assert duels(path) == [("x", ">", "y", 2)]


def test_results_of_promptfoo_are_ratings_of_providers(tmp_path: Path) -> None:
    # promptfoo eval --output results.json has results within results, beside its
    # prompts (https://www.promptfoo.dev/docs/configuration/outputs).
    scores = {("openai:x", 0): 0.5, ("openai:x", 1): 1, ("y", 0): 0.25, ("y", 1): 0}
    results = [
        {
            "provider": {"id": provider, "label": ""},
            "prompt": {"raw": "Is {{n}} odd?", "label": "Is {{n}} odd?"},
            "vars": {"n": test},
            "testIdx": test,
            "response": {"output": "Yes"},
            "success": score > 0.4,
            "score": score,
            "gradingResult": {"pass": score > 0.4, "score": score, "reason": "1, 2"},
        }
        for (provider, test), score in scores.items()
    ]
    prompts = [{"raw": "Is {{n}} odd?", "provider": name} for name in ("x", "y")]
    export = {
        "evalId": "e",
        "results": {"version": 3, "prompts": prompts, "results": results},
        "config": {"tests": [{"vars": {"n": 0}}, {"vars": {"n": 1}}]},
    }
    path = tmp_path / "results.json"
    path.write_text(json.dumps(export))
    table = read_answers(path, NamedColumns(rater="testIdx")).answers
    rows = zip(table["item"], table["rater"], table["rating"], strict=True)
    assert {(item, int(test)): rating for item, test, rating in rows} == scores


def test_tables_of_mlflow_are_split(tmp_path: Path) -> None:
    # mlflow.log_table writes pandas' orient "split"; columns of metrics are named
    # answer_similarity/v1/score (https://mlflow.org/docs/latest/genai).
    table = pd.DataFrame(
        {
            "model": ["x", "y", "x"],
            "inputs": ["What is MLflow?", "What is MLflow?", "What is Spark?"],
            "answer_similarity/v1/score": [4, 5, None],
            "answer_similarity/v1/justification": ["near", "exact", "no answer"],
        }
    )
    path = tmp_path / "eval_results_table.json"
    table.to_json(path, orient="split", index=False)
    file = read_answers(path)
    ratings = zip(file.answers["item"], file.answers["rating"], strict=True)
    assert sorted(ratings) == [("x", 4.0), ("y", 5.0)]
    assert "Left out: 1 row without an item or a rating (line 3)." in file.notes


# The CSV file of an experiment of LangWatch has a row for each question: what each
# target said, each evaluator's score of it, and a judge's choice of the candidates
# (https://github.com/langwatch/langwatch, csv export of batch evaluation results).
LANGWATCH = """\
index,question,{},best_winner,best_candidates,best_reasoning
0,What?,{},y,"x, x_2, y","y is right, x is not"
1,Why?,{},tie,"x, y",both
2,Who?,{},tie,"x, x_2, y",all
3,When?,{},no_verdict,"x, y",the two orders differ
4,Where?,{},x_2,"x_2, y",short
5,Which?,{},,,
"""


def langwatch(path: Path, *names: str) -> Path:
    """Writes scores 0 to 8 of the targets x, x_2 and y; question 5 has none."""
    parts = ("output", "duration_ms", "error", "trace_id")
    ends = ("score", "passed", "label", "details")
    header = [
        ",".join(
            [f"{target}_{part}" for part in parts]
            + [f"{target}_{name}_{end}" for name in names for end in ends]
        )
        for target in ("x", "x_2", "y")
    ]
    lines = [",".join(header)]
    for row in range(6):
        cells = []
        for place in range(3):
            number = 3 * row + place
            score, passed = ("Error", "") if number > 8 else (number, "true")
            cells += ["text", 9, "", "id"] + len(names) * [score, passed, "", ""]
        lines.append(",".join(map(str, cells)))
    path.write_text(LANGWATCH.format(*lines))
    return path


def test_choices_of_langwatch_are_of_candidates(tmp_path: Path) -> None:
    path = langwatch(tmp_path / "run.csv", "match")
    assert sorted(duels(path)) == [
        ("x", "=", "y", 1),
        ("x_2", ">", "y", 1),
        ("y", ">", "x", 1),
        ("y", ">", "x_2", 1),
    ]
    file = read_answers(path)
    assert "the choice in best_winner, by name" in file.notes[0]
    assert file.notes[1:] == [
        "Left out: 1 row with a tie of more than two items (line 4).",
        "Left out: 2 rows without an item or a winner (lines 5, 7).",
    ]
    path.write_text(path.read_text().replace("no_verdict", "z"))
    with pytest.raises(FeedbackError, match=r"line 5.*'z' is none of x, y"):
        read_answers(path)


def test_scores_of_langwatch_are_ratings_of_targets(tmp_path: Path) -> None:
    path = langwatch(tmp_path / "run.csv", "match", "tone")
    table = read_answers(path, NamedColumns(rating="x_tone_score")).answers
    rows = zip(table["item"], table["rater"], table["rating"], strict=True)
    assert {(item, int(question)): rating for item, question, rating in rows} == {
        (target, row): 3.0 * row + place
        for row in range(3)
        for place, target in enumerate(["x", "x_2", "y"])
    }
    path.write_text(path.read_text().replace("best_winner", "verdict"))
    with pytest.raises(FeedbackError, match="scores by match, tone; name a column"):
        read_answers(path)


def test_verdicts_of_both_orders_and_abstentions(tmp_path: Path) -> None:
    # MT-bench's judge ends in [[A]], [[B]] or [[C]] for a tie (Zheng et al. 2023), and
    # in "error" where it did not.
    verdicts = ["[[A]]", "[[B]]", "[[C]]", "error", ""]
    rows = [f"x,y,{verdict},1,2\n" for verdict in verdicts]
    rows += [f"y,x,{verdict},3,4\n" for verdict in verdicts]
    path = tmp_path / "judgments.csv"
    path.write_text("model_a,model_b,verdict,len_a,len_b\n" + "".join(rows))
    file = read_answers(path)
    assert sorted(duels(path)) == [
        ("x", "=", "y", 1),
        ("x", ">", "y", 2),
        ("y", "=", "x", 1),
        ("y", ">", "x", 2),
    ]
    about = "without an item or a winner (lines 5, 6, 10, 11)"
    assert file.notes[1:] == [f"Left out: 4 rows {about}."]


def test_objects_with_and_without_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "answers.ndjson"
    first = {"model_a": "x", "model_b": "y", "winner": "x", "tags": list(range(99))}
    second = {"model_a": "x", "model_b": "z", "winner": None}
    path.write_text(f"{json.dumps(first)}\n\n{json.dumps(second)}\n")
    file = read_answers(path)
    assert duels(path) == [("x", ">", "y", 1)]
    assert file.notes[1:] == ["Left out: 1 row without an item or a winner (line 3)."]
    assert file.unread == ["tags"]
