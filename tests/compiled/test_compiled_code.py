"""What keeps compiled code right: its cache, its argument types, and other processes."""

import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import bodysense
from bodysense.compiled import jit
from bodysense.estimation._kernels.problem import Bodies, Memory, Priors, Readings
from bodysense.estimation._kernels.solve import (
    Found,
    GroupArrays,
    ResultArrays,
    SampleArrays,
    SampleSlot,
)
from bodysense.estimation._kernels.substitution import Spread
from bodysense.robot import dynamics
from bodysense.robot._kernels.dynamics import (
    forward_dynamics_batch,
    inverse_dynamics_batch,
    mass_matrix_batch,
)
from bodysense.robot._kernels.regressor import energy_batch, regressor_batch
from bodysense.robot._kernels.tree import Scratch, Tree
from bodysense.simulation._kernels.rollout import Loop, State
from bodysense.simulation._kernels.sensitivity import Tangent

PACKAGE = Path(bodysense.__file__).parent


def test_all_that_kernels_take_is_in_the_digest():
    of_estimators = (Bodies, Readings, Priors, Memory, Spread, Found, ResultArrays, SampleSlot)
    for taken in (Tree, Scratch, Loop, State, Tangent, SampleArrays, GroupArrays, *of_estimators):
        assert Path(inspect.getfile(taken)).parent.name == "_kernels"


def test_a_change_of_any_kernel_changes_the_folder(tmp_path, monkeypatch):
    for source in (*PACKAGE.glob("*/_kernels/*.py"), *PACKAGE.glob("compiled/*.py")):
        copy = tmp_path / "bodysense" / source.relative_to(PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "bodysense/compiled/jit.py"))
    folders = {jit._cache_folder()}
    kernels = sorted((tmp_path / "bodysense").rglob("*.py"))
    for source in kernels:
        source.write_text(source.read_text() + "\n")
        folders.add(jit._cache_folder())
    assert len(folders) == 1 + len(kernels)


def test_numbas_own_cache_folder_is_left_alone():
    before = jit._settings.CACHE_DIR
    jit.uncached(lambda x: x)(1.0)
    jit.allocating(test_numbas_own_cache_folder_is_left_alone)
    assert before == jit._settings.CACHE_DIR


def test_read_only_and_strided_input_compiles_nothing_anew():
    robot = bodysense.load_robot("tx40")
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(3, 4, 6))
    frozen = plain.copy()
    frozen.flags.writeable = False
    strided = np.repeat(plain, 2, axis=2)[:, :, ::2]
    for q, v, a in (plain, frozen, strided):
        dynamics.inverse_dynamics(robot, q, v, a)
        dynamics.forward_dynamics(robot, q, v, a)
        dynamics.mass_matrix(robot, q)
        dynamics.torque_regressor(robot, q, v, a)
        dynamics.energy_regressor(robot, q, v)
    for kernel in (
        inverse_dynamics_batch,
        forward_dynamics_batch,
        mass_matrix_batch,
        regressor_batch,
        energy_batch,
    ):
        assert len(kernel.signatures) == 1


def test_one_singular_sample_does_not_spoil_others():
    robot = bodysense.load_robot("example:tiago")
    n = robot.n_joints
    coupling = np.eye(n)
    coupling[n - 1, 3] = 1.0
    robot = robot.with_actuators(
        bodysense.Actuators.from_values(n, coupling=coupling, coupled_terms=())
    )
    rng = np.random.default_rng(1)
    q, v, tau = rng.uniform(-1.0, 1.0, (3, 200, n))
    theta = np.tile(robot.theta, (200, 1))
    good = dynamics.forward_dynamics(robot, q, v, tau, theta=theta)
    theta[0] = 0.0
    mixed = dynamics.forward_dynamics(robot, q, v, tau, theta=theta)
    np.testing.assert_array_equal(mixed[1:], good[1:])


PICKLED = """
import pickle, sys
import numpy as np
import bodysense

def basis(v, shape, phi, dphi):
    phi[0] = v * v * v
    dphi[0] = 3.0 * v * v

if sys.argv[2] == "register":
    bodysense.register_friction_model("cubic", basis, terms=("Fq",))
if sys.argv[1] == "write":
    robot = bodysense.load_robot("tx40").with_friction("cubic", coefficients={"Fq": 0.5})
    robot.tree
    with open(sys.argv[3], "wb") as stream:
        pickle.dump(robot, stream)
else:
    with open(sys.argv[3], "rb") as stream:
        robot = pickle.load(stream)
from bodysense.robot import inverse_dynamics
one = np.ones((1, 6))
print(inverse_dynamics(robot, one, 2.0 * one, one).sum())
"""


def test_a_law_of_ones_own_goes_to_other_processes_by_name(tmp_path):
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", PICKLED, *words, str(tmp_path / "robot")]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)

    written = run("write", "register")
    assert written.returncode == 0, written.stderr
    assert run("read", "register").stdout == written.stdout
    foreign = run("read", "forget")
    assert foreign.returncode == 1
    assert "unknown friction model 'cubic'" in foreign.stderr


class _Kernel:
    """As numba's: it knows for which types it is compiled, which it is when called."""

    def __init__(self):
        self.signatures, self.calls = [], []

    def __call__(self, first, last):
        self.signatures.append("int64, int64")
        self.calls.append((first, last, threading.current_thread()))


def test_what_is_compiled_can_be_interrupted():
    """Only the main thread is interrupted: it is the first to call a kernel."""
    kernel = _Kernel()
    for _ in range(2):
        jit.in_threads(kernel, 9)
    jit.in_threads(kernel, 0)
    first, *others = kernel.calls
    assert first == (0, 0, threading.main_thread())
    assert sum(last - first for first, last, _ in others) == 18
    assert all(last > first for first, last, _ in others)  # compiled once


def test_ctrl_c_waits_for_the_threads_that_still_write():
    done, main = [], threading.main_thread()

    def kernel(first, last):
        if threading.current_thread() is main:
            return
        signal.raise_signal(signal.SIGINT)  # the main thread waits by now, or soon will
        time.sleep(0.2)
        done.append((first, last))

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            jit.in_threads(kernel, 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == [(1, 2)]
