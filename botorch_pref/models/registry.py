"""Models of utilities by name: the one list of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from botorch.models.model import Model

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class RegisteredModel:
    """A class of models, as names stand for it.

    Attributes:
        model_class: The class; experiments in Ax store its own name.
        name: Its short name on the command line; None if it is not to be had there.
    """

    model_class: type[Model]
    name: str | None = None


_REGISTERED: dict[str, RegisteredModel] = {}


def register_model(name: str | None = None) -> Callable[[type[M]], type[M]]:
    """A decorator that lets experiments in Ax and the command line make a model.

    Args:
        name: A short name that no other has, for models of ``python -m botorch_pref``:
            made from datapoints, comparisons and ``likelihood=``, and fitted by
            ``fit_gpytorch_mll``. None for others.

    Raises:
        TypeError: The name is not a text, or what is registered not a class of models.
        ValueError: Another class has this name, or is called as this class is.
    """
    if not (name is None or isinstance(name, str)):
        raise TypeError(
            f"register_model takes a short name, got {name!r}; write "
            '@register_model("name") above the class, or @register_model() for none.'
        )

    def register(model_class: type[M]) -> type[M]:
        if not (isinstance(model_class, type) and issubclass(model_class, Model)):
            raise TypeError(
                "register_model registers classes of BoTorch models, got "
                f"{model_class!r}."
            )
        entry = RegisteredModel(model_class, name)
        for known in registered_models():
            _check_apart(entry, known)
        _REGISTERED[model_class.__name__] = entry
        return model_class

    return register


def registered_models() -> tuple[RegisteredModel, ...]:
    """All registered models, by the names of their classes in alphabetical order."""
    return tuple(_REGISTERED[name] for name in sorted(_REGISTERED))


def _check_apart(entry: RegisteredModel, known: RegisteredModel) -> None:
    """Checks that two entries are of one class or share no name."""
    one, other = (e.model_class for e in (entry, known))
    if (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__):
        # A notebook's cell that is run again makes the same class again.
        return
    if one.__name__ == other.__name__ or (entry.name and entry.name == known.name):
        raise ValueError(
            f"{other.__module__}.{other.__qualname__} is registered with the name "
            f"{known.name!r}; give {one.__module__}.{one.__qualname__} names of its "
            "own."
        )
