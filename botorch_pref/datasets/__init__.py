"""Data sets of answers with features of the items, from files and packages."""

from botorch_pref.datasets.answer_files import AnswerFile, read_answers
from botorch_pref.datasets.data import ComparisonData, FeedbackData, assign_folds
from botorch_pref.datasets.items import ItemTable
from botorch_pref.datasets.layout_words import NamedColumns
from botorch_pref.datasets.loaders import (
    load_car,
    load_sushi,
    load_train,
    load_travel_mode,
    load_wine,
)
from botorch_pref.datasets.tables import load_csv

__all__ = [
    "AnswerFile",
    "ComparisonData",
    "FeedbackData",
    "ItemTable",
    "NamedColumns",
    "assign_folds",
    "load_car",
    "load_csv",
    "load_sushi",
    "load_train",
    "load_travel_mode",
    "load_wine",
    "read_answers",
]
