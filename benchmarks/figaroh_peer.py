"""Figaroh identifies the TX40 recording, as its own example for this robot does.

This file runs in figaroh's virtual environment, where bodysense is not installed: `figaroh_process`
starts it with the folder of the recording and a scratch folder. Each line "all" or "decimated" that
it reads makes it identify once more, from the CSV files on; it answers with a line of JSON.

The steps and settings are those of figaroh's own example for this robot (figaroh-examples,
staubli_tx40), with the cut-off that both sides use, and with the columns of the coupled wrist,
which that example has but no longer calls.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

START = time.perf_counter()  # the clock includes figaroh's import

import numpy as np  # noqa: E402
import pandas as pd  # type: ignore[import-untyped]  # noqa: E402
from figaroh.identification.base_identification import (  # type: ignore[import-not-found]  # noqa: E402
    BaseIdentification,
)
from figaroh.tools.robot import load_robot  # type: ignore[import-not-found]  # noqa: E402

JOINTS = [f"joint_{k}" for k in range(1, 7)]
RATIO = np.diag([32.0, 32.0, 45.0, -48.0, 45.0, 32.0])
RATE = 5000.0
CUTOFF = 50.0  # Hz, as on the other side
BORDER = 20  # samples cut off at each end, as the example does
DECIMATION = 10  # as the example does
COUPLED = ("Iam6", "fvm6", "fsm6")
# The configuration of the example, without what identification does not read.
CONFIG = f"""
robot:
  name: staubli_tx40
  properties:
    joints:
      active_joints: [{", ".join(JOINTS)}]
    mechanics:
      reduction_ratios: [32.0, 32.0, 45.0, -48.0, 45.0, 32.0]
      friction_coefficients:
        viscous: [8.05, 5.53, 1.97, 1.11, 1.86, 0.65]
        static: [7.14, 8.26, 6.34, 2.48, 3.03, 0.282]
      actuator_inertias: [0.362, 0.362, 0.0988, 0.0313, 0.0468, 0.0105]
      joint_offsets: [0.392, 1.37, 0.326, -0.102, -0.0288, 0.127]
    coupling: {{has_coupled_wrist: true, Iam6: 0.00964, fvm6: 0.616, fsm6: 1.95}}
tasks:
  identification:
    enabled: true
    problem:
      include_external_forces: false
      use_joint_torques: true
      model_components: {{friction: true, joint_offset: true, actuator_inertia: true}}
    signal_processing:
      sampling_frequency: {RATE}
      cutoff_frequency: {CUTOFF}
      filter_type: butterworth
      filter_order: 4
"""


class TX40Identification(BaseIdentification):  # type: ignore[misc]
    """What figaroh wants to be told about this robot: its files, gears and coupled wrist."""

    def __init__(self, robot: object, config: str, recording: Path) -> None:
        """Read the configuration; the recording is read by `initialize`."""
        super().__init__(robot, config)
        indices = [self.model.joints[self.model.getJointId(name)] for name in JOINTS]
        self.identif_config["act_idxq"] = [joint.idx_q for joint in indices]
        self.identif_config["act_idxv"] = [joint.idx_v for joint in indices]
        self.recording = recording

    def load_trajectory_data(self, data_source: str | None = None) -> dict[str, object]:
        """Motor angles and torques; only the positions are known, velocities come from them."""
        positions = pd.read_csv(self.recording / "motor_position.csv").to_numpy()
        torques = pd.read_csv(self.recording / "motor_torque.csv").to_numpy()
        times = (np.arange(len(positions)) / RATE).reshape(-1, 1)
        return {
            "timestamps": times,
            "positions": positions,
            "velocities": None,
            "accelerations": None,
            "torques": torques,
        }

    def process_kinematics_data(self, filter_config: object = None) -> None:
        """From motors to joints, then figaroh's filter and differences."""
        to_motors = RATIO.copy()
        to_motors[5, 4] = RATIO[5, 5]
        positions = self.raw_data["positions"] @ np.linalg.inv(to_motors).T
        positions[:, 1] -= np.pi / 2.0
        positions[:, 2] += np.pi / 2.0
        self.raw_data["positions"] = positions
        self.filter_kinematics_data(self.filter_config)

    def process_torque_data(self, **_: object) -> object:
        """From motors to joints, and the borders cut off."""
        to_joints = RATIO.copy()
        to_joints[4, 5] = RATIO[5, 5]
        self.processed_data["torques"] = self.raw_data["torques"] @ to_joints.T
        for key, values in self.processed_data.items():
            self.processed_data[key] = values[BORDER:-BORDER]
        return self.processed_data["torques"]

    def calculate_full_regressor(self) -> None:
        """Three more columns for the motor that moves joints 5 and 6, all samples at once."""
        super().calculate_full_regressor()
        n = self.num_samples
        v, a = self.processed_data["velocities"], self.processed_data["accelerations"]
        wrist = np.zeros((6 * n, 3))
        sign = np.sign(v[:, 4] + v[:, 5])
        wrist[4 * n : 5 * n] = np.column_stack([a[:, 5], v[:, 5], sign])
        wrist[5 * n :] = np.column_stack([a[:, 4], v[:, 4], sign])
        regressor: np.ndarray = self.dynamic_regressor  # type: ignore[has-type]
        self.dynamic_regressor = np.hstack([regressor, wrist])

    def initialize_standard_parameters(self) -> None:
        """Names and first values of the three columns."""
        super().initialize_standard_parameters()
        for name in COUPLED:
            self.standard_parameter[name] = float(self.identif_config[name])

    def _compute_validation_metrics(self) -> None:
        """Leave out figaroh's score, which builds the regressor once more: kinder to it."""

    def print_quality_report(self) -> None:
        """Leave out its report as well."""


def without_meshes(path: Path) -> str:
    """The robot file without shapes: figaroh wants their meshes, which nobody has here."""
    root = ElementTree.parse(path).getroot()
    for link in root.findall("link"):
        for shape in (*link.findall("visual"), *link.findall("collision")):
            link.remove(shape)
    return ElementTree.tostring(root, encoding="unicode")


def identified(recording: Path, urdf: Path, config: Path, decimate: bool) -> TX40Identification:
    """Identify from the files on, as the example does, without its plots."""
    robot = load_robot(str(urdf))
    identification = TX40Identification(robot, str(config), recording)
    identification.initialize()
    identification.solve(decimate=decimate, decimation_factor=DECIMATION, plotting=False, wls=True)
    return identification


def main(recording: Path, scratch: Path) -> None:
    """Answer requests until there are no more."""
    config = scratch / "tx40.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    urdf = scratch / "tx40.urdf"
    urdf.write_text(without_meshes(recording / "tx40.urdf"), encoding="utf-8")
    print(json.dumps({"import": time.perf_counter() - START}), flush=True)
    for request in sys.stdin:
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):  # nothing but answers may go there
            found = identified(recording, urdf, config, request.strip() == "decimated")
        seconds = time.perf_counter() - start
        names = list(found.standard_parameter)
        kept = [name for k, name in enumerate(names) if k not in set(found._idx_eliminated)]
        places = [names.index(kept[k]) for k in found._base_indices]
        answer = {
            "seconds": seconds,
            "names": [names[k] for k in places],
            "places": places,
            "values": [float(value) for value in found.phi_base],
            "rows": int(found.tau_noised.size),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
