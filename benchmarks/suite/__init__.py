"""Regrets of rules on problems, with judges who err and who do not.

    python -m benchmarks.suite run [--study NAME] [--jobs N | --scheduler ADDRESS]
    python -m benchmarks.suite report

`studies` declares what is run, `runs` plays it and keeps what came out, `pages` shows
it.
"""
