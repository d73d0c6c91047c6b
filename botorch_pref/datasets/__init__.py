"""Data sets of answers with features of the items, from files and packages."""

from botorch_pref.datasets.beta_ratings import load_car_task, load_reading_skills
from botorch_pref.datasets.bigrams import load_bigrams
from botorch_pref.datasets.car_choices import load_car
from botorch_pref.datasets.cars import load_cars
from botorch_pref.datasets.comparison_data import ComparisonData
from botorch_pref.datasets.feedback_data import FeedbackData
from botorch_pref.datasets.folds import assign_folds
from botorch_pref.datasets.item_table import ItemTable
from botorch_pref.datasets.sushi import load_sushi
from botorch_pref.datasets.tables.wide_table import load_csv
from botorch_pref.datasets.train_journeys import load_train
from botorch_pref.datasets.travel_mode import load_travel_mode
from botorch_pref.datasets.wine_bitterness import load_wine

__all__ = [
    "ComparisonData",
    "FeedbackData",
    "ItemTable",
    "assign_folds",
    "load_bigrams",
    "load_car",
    "load_car_task",
    "load_cars",
    "load_csv",
    "load_reading_skills",
    "load_sushi",
    "load_train",
    "load_travel_mode",
    "load_wine",
]
