"""Likelihoods, models and acquisition functions by name, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A class in the table, and its short name on the command line, None for none."""

    cls: type[Any]
    name: str | None


_TABLE: dict[tuple[type, str], Entry] = {}
"""Entries by the base of the classes and the name of the class."""


def check_class(decorator: str, target: object, base: type, family: str) -> None:
    """Checks that a decorator stands above a class of its family."""
    if not (isinstance(target, type) and issubclass(target, base)):
        raise TypeError(f"{decorator} registers classes of {family}, got {target!r}.")


def register(entry: Entry, base: type) -> None:
    """Puts a class derived from a base into the table.

    A notebook's cell that is run again makes the same class again, which takes the
    place of the first.

    Raises:
        ValueError: Another class of the base has its name, or its short name.
    """
    path = _path(entry.cls)
    for member in registered(base):
        alike = member.cls.__name__ == entry.cls.__name__ or (
            entry.name is not None and entry.name == member.name
        )
        if alike and _path(member.cls) != path:
            clause = "" if member.name is None else f" with the name {member.name!r}"
            raise ValueError(
                f"{_path(member.cls)} is registered already{clause}; give {path} names "
                "of its own."
            )
    _TABLE[base, entry.cls.__name__] = entry


def registered(base: type) -> list[Any]:
    """Lists entries of all registered classes of a base, by the classes' names."""
    keys = sorted(name for family, name in _TABLE if family is base)
    return [_TABLE[base, name] for name in keys]


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
