"""Comparisons with features, from files and packages."""

from botorch_pref.datasets.comparison_data import ComparisonData
from botorch_pref.datasets.folds import assign_folds
from botorch_pref.datasets.train_journeys import load_train
from botorch_pref.datasets.wide_table import load_csv

__all__ = ["ComparisonData", "assign_folds", "load_csv", "load_train"]
