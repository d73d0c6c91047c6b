"""BoTorch's own tests of `PairwiseGP`, with each of our classes in its place.

BoTorch does not install its tests, so that they are no part of ours. Given a clone with
the tag of the version that is installed::

    git clone https://github.com/meta-pytorch/botorch
    python -m benchmarks.botorch_suite botorch

runs every test class of that version that mentions `PairwiseGP`, first with
`PairwiseGP` itself, then with each model. Tests are extracted to memory; statements
that ask for something that only `PairwiseGP` has are cut from them, see ``EXCEPTED``,
and everything else must pass.
"""

from __future__ import annotations

import argparse
import ast
import random
import subprocess
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import botorch
import torch
from botorch.models.likelihoods import pairwise
from botorch.models.pairwise_gp import PairwiseGP

from botorch_pref import (
    EPPreferenceGP,
    LaplacePreferenceGP,
    PreferenceMarginalLogLikelihood,
    SkewNormalPosterior,
    SkewPreferenceGP,
    VariationalPreferenceGP,
)


@dataclass(frozen=True)
class Excepted:
    """Statements of BoTorch's tests that do not apply to a model.

    Attributes:
        test: Name of the test, or of its class.
        fragment: Statements that contain it are cut; none for the whole test.
        reason: Why.
        only: For this class of model; None for all.
    """

    test: str
    fragment: str
    reason: str
    only: type | None = None


_PRIVATE = "an intermediate of PairwiseGP's solver"
_CONSOLIDATED = "PairwiseGP's cache of consolidated data"
_PRIOR = "PairwiseGP's default prior; ours is BoTorch's dimension-scaled one"

_DRAWS = "agreement to 1e-3 of a posterior that is drawn"
_BASE = "counts one base sample a point; a mixture has another for the component"

EXCEPTED = [
    Excepted("test_pairwise_gp", "util_comp", _PRIVATE),
    Excepted("test_consolidation", "model.utility", _PRIVATE),
    Excepted("test_consolidation", "consolidated", _CONSOLIDATED),
    Excepted("test_consolidation", "pred_shape, train_X", _CONSOLIDATED),
    Excepted("test_load_state_dict_recomputes_laplace", "utility", _PRIVATE),
    Excepted("test_load_state_dict", "_buffer_names", _PRIVATE),
    Excepted("TestPairwiseLikelihood", "", "takes `utility` and `D` for its data"),
    Excepted("test_pairwise_gp", "ConstantMean", _PRIOR),
    Excepted("test_pairwise_gp", "GammaPrior", _PRIOR),
    Excepted("test_pairwise_gp", "SmoothedBoxPrior", _PRIOR),
    Excepted("test_pairwise_gp", "output_indices=[0]", "asserts defect 10"),
    Excepted("test_pairwise_gp", "=LinearKernel()", "ours take every kernel"),
    Excepted("test_pairwise_gp", "other_comp)", "an equal copy of the data is refused"),
    Excepted("test_load_state_dict", "strict=True", "ours can be strict"),
    Excepted("test_construct_inputs", "Only `RankingDataset`", "ours name more"),
    Excepted(
        "test_condition_on_observations",
        "_batch_posterior.",
        _DRAWS,
        SkewPreferenceGP,
    ),
    Excepted(
        "test_learned_preference_objective",
        "base_samples.shape",
        _BASE,
        SkewPreferenceGP,
    ),
]

LIKELIHOODS = {
    "PairwiseProbitLikelihood": pairwise.PairwiseProbitLikelihood,
    "PairwiseLogitLikelihood": pairwise.PairwiseLogitLikelihood,
}


def _only(name: str) -> dict[str, Any]:
    """Both of BoTorch's likelihoods as the one that an engine takes."""
    return dict.fromkeys(LIKELIHOODS, LIKELIHOODS[name])


IN_PLACE: dict[type, dict[str, Any]] = {
    LaplacePreferenceGP: {},
    EPPreferenceGP: {},
    SkewPreferenceGP: _only("PairwiseProbitLikelihood")
    | {"GPyTorchPosterior": SkewNormalPosterior},
    VariationalPreferenceGP: _only("PairwiseLogitLikelihood"),
}
"""What else the names in the tests stand for, by model."""


class _Cut(ast.NodeTransformer):
    """Transformer that cuts excepted statements from tests, and notes from which."""

    def __init__(self, excepted: list[Excepted]) -> None:
        self.excepted, self.fragments, self.cut_from = excepted, [], set()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST | None:
        if any(e.test == node.name and not e.fragment for e in self.excepted):
            return None
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        own = [e.fragment for e in self.excepted if e.test == node.name]
        if "" in own:
            return None
        self.fragments, self.name = own, node.name
        self.generic_visit(node)
        self.fragments = []
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        # What must raise goes as a whole, and so does a block that is named.
        header = " ".join(ast.unparse(item) for item in node.items)
        named = any(fragment in header for fragment in self.fragments)
        whole = named or "assertRaises" in header
        return self.visit_simple(node) if whole else self.generic_visit(node)

    def visit_simple(self, node: ast.AST) -> ast.AST:
        if any(fragment in ast.unparse(node) for fragment in self.fragments):
            self.cut_from.add(self.name)
            return ast.copy_location(ast.Pass(), node)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        # A loop over what is excepted.
        if any(fragment in ast.unparse(node.iter) for fragment in self.fragments):
            return self.visit_simple(node)
        return self.generic_visit(node)

    visit_Assert = visit_Expr = visit_Assign = visit_simple


def starting_like_pairwise_gp(cls: Any) -> type:
    """A model with the output scale of 1 from which `PairwiseGP` starts.

    The tolerances of tests on samples are for that scale.
    """

    class Starting(cls):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if kwargs.get("covar_module") is None:
                self.covar_module.outputscale = 1.0

    return Starting


def _git(checkout: str, *arguments: str) -> str:
    command = ["git", "-C", checkout, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def sources(checkout: str) -> dict[str, str]:
    """Files of tests of the installed version that mention `PairwiseGP`, by path."""
    tag = f"v{botorch.__version__}"
    found = _git(checkout, "grep", "-l", "PairwiseGP", tag, "--", "test").split()
    return {
        name.removeprefix(f"{tag}:"): _git(checkout, "show", name) for name in found
    }


def _test_classes(tree: ast.Module) -> set[str]:
    """Names of the classes that mention `PairwiseGP`, themselves or in a base."""
    chosen: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base) for base in node.bases}
            if "PairwiseGP(" in ast.unparse(node) or bases & chosen:
                chosen.add(node.name)
    return chosen


def cases(
    path: str, source: str, names: dict[str, Any], excepted: list[Excepted]
) -> Iterator[tuple[unittest.TestCase, bool]]:
    """The tests of a file with ``names`` replaced, and whether each was cut."""
    tree = ast.parse(source)
    chosen, cut = _test_classes(tree), _Cut(excepted)
    module = types.ModuleType(path)
    code = compile(ast.fix_missing_locations(cut.visit(tree)), path, "exec")
    exec(code, module.__dict__)
    known = {name: value for name, value in names.items() if hasattr(module, name)}
    module.__dict__.update(known)
    for name in sorted(chosen):
        if hasattr(module, name):
            loaded = unittest.defaultTestLoader.loadTestsFromTestCase(
                getattr(module, name)
            )
            for case in loaded:
                yield case, case._testMethodName in cut.cut_from


def count_tests(path: str, source: str) -> int:
    """Number of tests of a file before anything is cut."""
    return sum(1 for _ in cases(path, source, {}, []))


def failures(case: unittest.TestCase) -> list[str]:
    """Tracebacks of the failures of a test, of its subtests too."""
    result = unittest.TestResult()
    random.seed(0)
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True):
        case.run(result)
    return [text for _, text in result.failures + result.errors]


def run(
    files: dict[str, str], names: dict[str, Any], excepted: list[Excepted]
) -> tuple[Counter[str], dict[str, list[str]]]:
    """Runs all tests.

    Returns:
        How many passed, passed but for excepted statements, and failed; and the
        tracebacks of those that failed.
    """
    counts: Counter[str] = Counter()
    failed = {}
    for path, source in files.items():
        for case, was_cut in cases(path, source, names, excepted):
            label = f"{path}::{case.id().split('.', 1)[-1]}"
            texts = failures(case)
            if texts:
                failed[label] = texts
            counts["failed" if texts else "in part" if was_cut else "passed"] += 1
    return counts, failed


def main() -> None:
    """Prints a row for each class of model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", help="a git clone of BoTorch, with its tags")
    parser.add_argument("--model", help="only the class of this name")
    parser.add_argument("--verbose", action="store_true", help="print tracebacks")
    arguments = parser.parse_args()
    files = sources(arguments.checkout)
    total = sum(count_tests(path, source) for path, source in files.items())
    for cls, names in {PairwiseGP: {}, **IN_PLACE}.items():
        if arguments.model not in (None, cls.__name__):
            continue
        ours = [e for e in EXCEPTED if e.only in (None, cls) and cls is not PairwiseGP]
        names = names | {
            PairwiseGP.__name__: starting_like_pairwise_gp(cls),
            "PairwiseLaplaceMarginalLogLikelihood": PreferenceMarginalLogLikelihood,
        }
        if cls is PairwiseGP:
            names = {}
        counts, failed = run(files, names, ours)
        left_out = total - counts.total()
        print(
            f"{cls.__name__}: {counts['passed']} passed, {counts['in part']} passed "
            f"but for excepted statements, {left_out} excepted, {counts['failed']} "
            "failed"
        )
        for label, texts in failed.items():
            print(f"    {label}: {texts[0].splitlines()[-1]}")
            if arguments.verbose:
                print("\n".join(texts))
    print("Excepted:")
    for e in EXCEPTED:
        whose = "" if e.only is None else f" ({e.only.__name__})"
        print(f"    {e.test}: {e.fragment or 'all of it'}: {e.reason}{whose}")


if __name__ == "__main__":
    main()
