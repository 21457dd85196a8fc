r"""Estimate a push while it happens: a simulated UR5 sends its sensors, forces come out at once.

    python examples/09_feel_live.py            # eight seconds, at the pace of the robot
    python examples/09_feel_live.py --quick    # three

Two processes: a robot, which Pinocchio simulates at 1 kHz and which sends a line of JSON with each
sample to a socket; and this one, which listens there and prints the force on the last link, and
whether it is a contact. The robot sends positions and torques of its joints alone, with noise, and
at first nobody pushes, so that noise is learned. From the command line it is

    bodysense estimate example:ur5 --live tcp://127.0.0.1:9000 \
        --sensors examples/sensors/ur5_live.yaml
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pinocchio as pin

import bodysense
from bodysense.estimation.live import LiveEstimator, estimate_live
from bodysense.logs.live import LiveResult, ResultWriter, Sink, StreamFaults, StreamReader
from bodysense.logs.live.socket_source import SocketSource

SENSORS = Path(__file__).parent / "sensors" / "ur5_live.yaml"
LINK = "wrist_3_link"
PUSH = np.array([12.0, 20.0, -16.0])  # N, in the axes of the world, at the origin of the link
STEP = 1e-3  # s
HOME = np.array([0.0, -1.2, 1.6, -0.4, 1.2, 0.3])  # rad
STD = {"q": 1e-5, "tau": 0.2}  # rad and N·m, of the noise
LEARNING = 0.3  # of the time, at the beginning, in which nobody pushes
SURE = 1.96  # standard deviations in a 95 % band


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three seconds instead of eight")
    parser.add_argument("--robot", type=int, metavar="PORT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    seconds = 3.0 if args.quick else 8.0
    if args.robot is not None:
        play_robot(args.robot, seconds)
        return

    robot = bodysense.load_robot("example:ur5")
    setup = bodysense.load_estimation(SENSORS, robot)
    faults = StreamFaults(lambda text: print(f"note: {text}"))
    source = SocketSource("tcp://127.0.0.1:0", faults)  # 0: any port that is free
    reader = StreamReader(source)
    estimator = LiveEstimator(setup, robot, faults=faults, learning=LEARNING * seconds)
    forces = Forces("this screen", faults)
    writer = ResultWriter(forces, estimator.columns)
    command = [sys.executable, __file__, "--robot", str(source.port)]
    with subprocess.Popen(command + ["--quick"] * args.quick) as process:
        stop = threading.Event()
        threading.Thread(target=stop_after, args=(process, stop)).start()
        run = estimate_live(estimator, reader, writer, stop=stop)
    print(f"\n{run.summary()}\n")
    start, end = pushed(seconds)
    size = float(np.linalg.norm(PUSH))
    inside = forces.between(start + 0.2, end)
    outside = np.concatenate([forces.between(0.0, start), forces.between(end + 0.2, seconds)])
    print(f"pushed with {size:.1f} N: estimated {np.median(inside):.1f} N")
    for contact in run.contacts:
        print(f"contact on {contact['link']} since {contact['since']:.2f} s, pushed at {start:g} s")
    print(f"not pushed: estimated {np.median(outside):.1f} N, {outside.max():.1f} N at most")


def stop_after(process: subprocess.Popen, stop: threading.Event) -> None:
    """End the estimation soon after the robot has gone."""
    process.wait()
    time.sleep(0.3)
    stop.set()


class Forces(Sink):
    """Prints the force on the link four times a second, and keeps all of them."""

    def open(self, columns: Sequence[str]) -> None:
        places = {name: 2 * k for k, name in enumerate(columns)}
        self.places = [places[f"fx.{LINK}.force_{axis}"] for axis in "xyz"]
        self.samples: list[tuple[float, float]] = []
        self.shown = -np.inf

    def write(self, results: Sequence[LiveResult]) -> int:
        for result in results:
            force = np.array([result.values[k] for k in self.places])
            sigma = np.array([result.values[k + 1] for k in self.places])
            size = float(np.linalg.norm(force))
            band = SURE * float(np.linalg.norm(force * sigma)) / size  # along the force
            self.samples.append((result.t, size))
            if result.t >= self.shown + 0.25:
                self.shown = result.t
                there = [f"{c['link']}, {c['probability']:.0%}" for c in result.contacts]
                line = f"{result.t:6.2f} s  {size:5.1f} ± {band:3.1f} N  {'#' * round(size)}"
                print("  contact: ".join([line, *there]))
        return len(results)

    def close(self) -> None:
        """Nothing is left to do."""

    def between(self, start: float, end: float) -> np.ndarray:
        """Sizes of the force in this time [N]."""
        return np.array([size for t, size in self.samples if start <= t < end])


# The robot. It would run elsewhere, and be real.


def play_robot(port: int, seconds: float) -> None:
    """Simulate the arm in real time, and send what its encoders and torque sensors read."""
    model = bodysense.load_robot("example:ur5").model
    data, rng = model.createData(), np.random.default_rng(9)
    joints, last = list(model.names)[1:], model.njoints - 1
    q, v = HOME.copy(), np.zeros(model.nv)
    start, end = pushed(seconds)
    with connected(port) as stream:
        begin = time.perf_counter()
        for k in range(int(seconds / STEP)):
            t = k * STEP
            w = pin.Force(np.zeros(6))
            pin.forwardKinematics(model, data, q)
            if start <= t < end:
                w.linear = data.oMi[last].rotation.T @ PUSH
            J = pin.computeJointJacobian(model, data, q, last)
            tau = control(model, data, t, q, v)
            read = {"t": t}
            for j, joint in enumerate(joints):
                read[f"q.{joint}"] = q[j] + STD["q"] * rng.normal()
                read[f"tau.{joint}"] = tau[j] + STD["tau"] * rng.normal()
            time.sleep(max(0.0, begin + t - time.perf_counter()))
            stream.sendall(json.dumps(read).encode() + b"\n")
            v = v + STEP * pin.aba(model, data, q, v, tau + J.T @ w.vector)
            q = q + STEP * v


def control(model: pin.Model, data: pin.Data, t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(6,) torques of a PD controller with feed-forward, which does not know of the push."""
    w = np.array([1.0, 1.3, 1.6, 1.9, 2.2, 2.5])
    wanted = HOME + 0.15 * (1.0 - np.cos(w * t))
    speed, acceleration = 0.15 * w * np.sin(w * t), 0.15 * w**2 * np.cos(w * t)
    return pin.rnea(model, data, q, v, acceleration + 400.0 * (wanted - q) + 40.0 * (speed - v))


def connected(port: int) -> socket.socket:
    """The connection to whoever estimates, once it listens."""
    for _ in range(1000):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise TimeoutError(f"nobody listens on port {port}")


def pushed(seconds: float) -> tuple[float, float]:
    """When the push begins and ends [s]."""
    return 0.4 * seconds, 0.75 * seconds


if __name__ == "__main__":
    main()
