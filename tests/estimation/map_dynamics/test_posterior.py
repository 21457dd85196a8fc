"""Names, samples, words and files of a posterior."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bodysense.errors import FileReadError, ShapeError, UnknownNameError
from bodysense.estimation import Assumptions, GaussianPrior, MapDynamics, Posterior
from bodysense.sensors import ForceTorque, JointTorque, variances


@pytest.fixture(scope="module")
def problem(tree_named):
    tree = tree_named("floating tree")
    sensors = [
        JointTorque(name="tau", joint="joint2", covariance=variances(0.1, 1)),
        ForceTorque(name="ft", joint="joint5", covariance=variances(0.1, 6)),
    ]
    priors = Assumptions(
        wrench=GaussianPrior.zero(6, 3.0), joint_acceleration=GaussianPrior.zero(1, 5.0)
    )
    return MapDynamics(tree.robot, sensors, priors)


@pytest.fixture(scope="module")
def posterior(problem):
    rng = np.random.default_rng(1)
    q, dq = rng.normal(size=(2, 4, problem.robot.n_joints))
    y = rng.normal(size=(4, 7))
    y[2, 3] = np.nan
    rest = np.zeros(6)
    return problem.estimate(q, dq, y, base_twist=rest, detail="blocks", likelihood=True)


def test_every_quantity_has_its_name(posterior):
    for name, where in posterior.variables.slices.items():
        k = where.stop - where.start
        assert posterior[name].shape == (4, k)
        block = posterior.covariance(name)
        assert block.shape == (4, k, k)
        diagonal = np.sqrt(np.einsum("tii->ti", block))
        np.testing.assert_allclose(posterior.sigma(name), diagonal, rtol=1e-12)


def test_one_sample_of_many(problem, posterior):
    one = posterior.at(2)
    assert one.single
    np.testing.assert_array_equal(one.mean, posterior.mean[2])
    np.testing.assert_array_equal(one.variance, posterior.variance[2])
    np.testing.assert_array_equal(one.covariance("fx.link3"), posterior.covariance("fx.link3")[2])
    assert one.log_likelihood == posterior.log_likelihood[2]
    assert one.absent == {"tau": 0, "ft": 1}
    assert np.isnan(one.residual["ft"]).all()
    assert posterior.at(-2).absent == one.absent
    with pytest.raises(ShapeError, match="there are 4"):
        posterior.at(4)
    with pytest.raises(ShapeError, match="single sample already"):
        one.at(0)


def test_says_what_it_holds(problem, posterior):
    text = posterior.summary()
    assert "at 4 samples" in text
    assert "without readings of ft (1)" in text
    assert "log-likelihood" in text
    assert text in repr(posterior)
    n = problem.robot.n_joints
    still, rest = np.zeros(n), np.zeros(6)
    bare = problem.estimate(still, still, np.zeros(7), base_twist=rest, detail="means")
    assert bare.summary().startswith("means of ")
    assert "at 1 sample," in bare.summary()
    with pytest.raises(ShapeError, match="detail='variances'"):
        bare.sigma("fx.link3")
    with pytest.raises(ShapeError, match="detail='blocks'"):
        bare.covariance("fx.link3")


@pytest.mark.parametrize("sample", [None, 2])
def test_files(posterior, tmp_path, sample):
    posterior = posterior if sample is None else posterior.at(sample)
    posterior.save(tmp_path)
    again = Posterior.load(tmp_path)
    np.testing.assert_array_equal(again.mean, posterior.mean)
    np.testing.assert_array_equal(again.variance, posterior.variance)
    np.testing.assert_array_equal(again.log_likelihood, posterior.log_likelihood)
    assert list(again.variables) == list(posterior.variables)
    assert again.absent == posterior.absent
    for name in posterior.blocks:
        np.testing.assert_array_equal(again.covariance(name), posterior.covariance(name))
    for name in posterior.residual:
        np.testing.assert_array_equal(again.residual[name], posterior.residual[name])
    assert again.summary() == posterior.summary()
    assert not list(tmp_path.glob("*.pkl"))


def test_files_without_what_was_not_asked_for(problem, tmp_path):
    n = problem.robot.n_joints
    still = np.zeros(n)
    found = problem.estimate(still, still, np.zeros(7), base_twist=np.zeros(6), detail="means")
    found.save(tmp_path)
    again = Posterior.load(tmp_path)
    assert again.variance is None
    assert again.log_likelihood is None
    assert again.blocks == {}


def test_damaged_files_are_named(posterior, tmp_path):
    with pytest.raises(FileReadError, match=r"posterior\.json"):
        Posterior.load(tmp_path)
    posterior.save(tmp_path)
    path = tmp_path / "posterior.json"
    about = json.loads(path.read_text())
    sizes = dict(list(about["variables"]["sizes"].items())[1:])
    path.write_text(json.dumps({**about, "variables": {**about["variables"], "sizes": sizes}}))
    with pytest.raises(FileReadError, match="do not belong together"):
        Posterior.load(tmp_path)
    path.write_text(json.dumps({**about, "variables": 3}))
    with pytest.raises(FileReadError, match="do not belong together"):
        Posterior.load(tmp_path)
    path.write_text(json.dumps({**about, "residual": [*about["residual"], "nose"]}))
    with pytest.raises(FileReadError, match=r"residual\.2"):
        Posterior.load(tmp_path)


def test_unknown_names(posterior):
    for ask in (posterior.__getitem__, posterior.sigma, posterior.covariance):
        with pytest.raises(UnknownNameError, match=r"fx\.nose"):
            ask("fx.nose")
