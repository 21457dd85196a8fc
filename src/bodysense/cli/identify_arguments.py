"""The arguments of `bodysense identify`, as argparse knows them."""

from __future__ import annotations

import argparse


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument(
        "robot",
        metavar="ROBOT",
        nargs="?",
        help="the robot as far as it is known: a URDF, MJCF or DH file, tx40, example:NAME",
    )
    parser.add_argument(
        "logs", metavar="LOG", nargs="*", help="recordings: CSV, Parquet, MCAP or a ROS 2 bag"
    )
    parser.add_argument("--layout", metavar="FILE", help="what the columns of the logs mean (YAML)")
    parser.add_argument(
        "--validate", metavar="LOG", nargs="+", action="extend", help="recordings for scores alone"
    )
    parser.add_argument(
        "--method", metavar="NAME", help="pc-wls (default), auto, or one of `bodysense methods`"
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="write robot, scores and report here")
    parser.add_argument(
        "--force", action="store_true", help="replace files of the same names in an existing DIR"
    )
    parser.add_argument("--config", metavar="FILE", help="do again what a config.yaml says")
    parser.add_argument("--json", action="store_true", help="print scores and verdict as JSON")
    robot = parser.add_argument_group("robot")
    robot.add_argument("--actuators", metavar="FILE", help="an actuator file (YAML)")
    robot.add_argument("--fixed", action="store_true", default=None, help="hold the root link")
    robot.add_argument(
        "--friction",
        metavar="LAW",
        help="auto (default: choose if the robot knows none), choose, own, or a law: coulomb, "
        "offset, stribeck, … with its shape as in coulomb:width=0.02, or fitted: stribeck:fit",
    )
    data = parser.add_argument_group("data")
    data.add_argument("--cutoff", metavar="HZ", type=float, help="of the low-pass on positions")
    data.add_argument("--band", metavar="HZ", type=float, help="of the parallel filter")
    data.add_argument("--order", metavar="N", type=int, help="of the Butterworth filter (4)")
    data.add_argument("--border", metavar="S", type=float, help="seconds cut off at each end")
    data.add_argument(
        "--still-speed", metavar="V", type=float, help="leave rows of slower joints out [rad/s]"
    )
    data.add_argument(
        "--no-decimation",
        dest="decimate",
        action="store_false",
        default=None,
        help="no parallel filter: every sample counts",
    )
    data.add_argument(
        "--allow-unusable",
        action="store_true",
        default=None,
        help="go on in spite of errors that the doctor has found",
    )
    method = parser.add_argument_group("method")
    method.add_argument(
        "--weighting", choices=("huber", "window"), help="of irls, pc-irls and pc-sqp-irls"
    )
    method.add_argument(
        "--spread",
        metavar="X",
        type=float,
        help="of the prior of ridge (0.3), rls and energy (1), filters (0.3), or of a search",
    )
    method.add_argument(
        "--forgetting", metavar="X", type=float, help="of rls from row to row (1: none), e.g. 0.999"
    )
    method.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        help="any other setting, as `bodysense methods NAME` lists them",
    )
    method.add_argument("--seed", metavar="N", type=int, help="of random numbers (0)")
    method.add_argument(
        "--relax", metavar="KIND", help="towards the prior, pc-*: euclidean, pullback or entropic"
    )
    method.add_argument(
        "--relax-weight", metavar="X", type=_weight, help="of --relax (1), or auto: from the data"
    )
    known = parser.add_argument_group("what is known of the links")
    known.add_argument("--knowledge", metavar="FILE", help="masses, symmetries, … (YAML)")
    known.add_argument("--total-mass", metavar="KG", type=float, help="of all links that move")
    known.add_argument(
        "--com-inside",
        metavar="SHAPES",
        help="centres of mass inside the links' shapes: collision, visual, boxes or auto",
    )
    load = parser.add_argument_group("a load (LOG: recordings with it)")
    load.add_argument(
        "--payload", metavar="LINK", nargs="?", const="", help="what LINK holds (the last link)"
    )
    load.add_argument(
        "--unloaded", metavar="LOG", nargs="+", action="extend", help="recordings without the load"
    )
    load.add_argument(
        "--gain-uncertainty", metavar="X", type=float, help="of drive gains, relative (0.02)"
    )
    load.add_argument("--robot-uncertainty", metavar="X", type=float, help="of a known arm (0.2)")
    load.add_argument(
        "--drive-gains", action="store_true", default=None, help="what do the currents mean?"
    )
    load.add_argument(
        "--load", metavar="KG[,x,y,z]", help="a load that was weighed, its centre [m]"
    )


def _weight(text: str) -> float | str:
    return text if text == "auto" else float(text)
