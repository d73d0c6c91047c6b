"""Kernels that experiments name."""

import pytest
import torch
from gpytorch.kernels import AdditiveKernel, LinearKernel, MaternKernel, ScaleKernel
from gpytorch.priors import GammaPrior
from showing import A, B, C, triangle

from botorch_pref import DuelKernel
from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.naming import kernel_named
from botorch_pref.errors import ExperimentError

MATERN = {
    "MaternKernel": {
        "nu": 1.5,
        "lengthscale_prior": {"GammaPrior": {"concentration": 5.0, "rate": 10.0}},
        "lengthscale_constraint": {"GreaterThan": {"lower_bound": 0.01}},
    }
}
X = torch.rand(5, 3, dtype=torch.double, generator=torch.Generator().manual_seed(0))


def test_a_kernel_with_its_options() -> None:
    kernel = kernel_named(MATERN, 3).double()
    assert isinstance(kernel, MaternKernel)
    assert kernel.lengthscale.shape == (1, 3)
    assert isinstance(kernel.lengthscale_prior, GammaPrior)
    truth = MaternKernel(nu=1.5, ard_num_dims=3).double()
    kernel.lengthscale = truth.lengthscale = torch.tensor([0.2, 0.5, 1.0])
    torch.testing.assert_close(kernel(X).to_dense(), truth(X).to_dense())
    with pytest.raises(RuntimeError, match="out of bounds"):
        kernel.initialize(lengthscale=0.001)
    alike = kernel_named({"MaternKernel": {"ard_num_dims": None}}, 3)
    assert alike.lengthscale.shape == (1, 1)


def test_the_kernel_for_few_answers() -> None:
    for given in ("DuelKernel", {"DuelKernel": {}}):
        kernel, truth = kernel_named(given, 3).double(), DuelKernel(3).double()
        torch.testing.assert_close(kernel(X).to_dense(), truth(X).to_dense())


def test_kernels_of_kernels() -> None:
    scaled = {"ScaleKernel": {"base_kernel": {"MaternKernel": {"nu": 1.5}}}}
    kernel = kernel_named({"AdditiveKernel": [scaled, "LinearKernel"]}, 3).double()
    truth = AdditiveKernel(
        ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=3)), LinearKernel()
    ).double()
    torch.testing.assert_close(kernel(X).to_dense(), truth(X).to_dense())


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("Matern", "no kernel 'Matern'.*MaternKernel"),
        ({"MaternKernel": {"nu": 0.7}}, "does not take .*0.7"),
        ({"MaternKernel": 1.5}, r"options 1\.5; give them by name"),
        ({"ScaleKernel": {"base_kernel": "Matern"}}, "no likelihood or prior 'Matern'"),
        ({"A": 1, "B": 2}, "is no kernel; give a name"),
    ],
)
def test_kernels_that_cannot_be_are_refused(given, match, tmp_path) -> None:
    with pytest.raises(ExperimentError, match=match):
        kernel_named(given, 2)
    with pytest.raises(ExperimentError, match=match):
        triangle(tmp_path / "triangle.db", model_options={"covar_module": given})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("raters", ["pool", "share"])
def test_an_experiment_keeps_its_kernel(raters, tmp_path) -> None:
    path = tmp_path / "triangle.db"
    options = {"covar_module": {"ScaleKernel": {"base_kernel": MATERN}}}
    triangle(path, model_options=options, raters=raters, initial=1)
    experiment = PreferenceExperiment.resume("triangle", storage=path)
    for winner, loser in ((A, B), (C, A)):
        pair = [dict(zip("ab", point, strict=True)) for point in (winner, loser)]
        experiment.record(pair, winner=0, rater="ann")
    model = experiment.fitted_adapter().botorch_model
    kernels = getattr(model, "rater_model", model).covar_module.modules()
    (matern,) = (kernel for kernel in kernels if isinstance(kernel, MaternKernel))
    assert matern.nu == 1.5
    assert matern.lengthscale.shape == (1, 2)
    assert len(experiment.ask(rater="ann").options) == 2
