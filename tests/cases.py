"""Cases that take no time, one after the other in one test."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def in_turn(
    names: str | Sequence[str], values: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test for each value as ``pytest.mark.parametrize`` would, but as one test.

    A parameter costs a millisecond in each process before anything runs. An error has
    the case as a note.

    Args:
        names: Of one argument of the test, or of several.
        values: Of this argument, or a tuple for each case.
    """
    keys, cases = [names] if isinstance(names, str) else [*names], [*values]
    assert cases, f"there are no cases of {keys}"

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def each(**shared_arguments: Any) -> None:
            for case in cases:
                values_of_case = [case] if len(keys) == 1 else case
                own_arguments = dict(zip(keys, values_of_case, strict=True))
                try:
                    test(**shared_arguments, **own_arguments)
                except BaseException as error:
                    error.add_note(f"in the case {own_arguments}")
                    raise

        parameters = inspect.signature(test).parameters.items()
        shared_parameters = [
            parameter for name, parameter in parameters if name not in keys
        ]
        each.__signature__ = inspect.Signature(shared_parameters)  # type: ignore[attr-defined]
        return each

    return decorated
