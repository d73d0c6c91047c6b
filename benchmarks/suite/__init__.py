"""Regrets of rules on problems, with judges who err and who do not.

    python -m benchmarks.suite run [--study NAME] [--jobs N | --scheduler ADDRESS]
    python -m benchmarks.suite report

`studies` declares what is run, `play` runs one cell of it, `schedule` runs many,
`store` keeps what came out, `tables` and `figures` show it.
"""
