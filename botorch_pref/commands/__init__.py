"""The two halves of `python -m botorch_pref`."""
