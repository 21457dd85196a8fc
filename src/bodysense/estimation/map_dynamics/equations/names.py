"""Names of the unknowns d, and of the rows of equations and readings: slices of a vector.

Every body that has unknowns brings 20 numbers, in the order of the tree (paper 000, appendix):

    a.<link> (6)  f.<joint> (6)  tau.<joint> (1)  fx.<link> (6)  ddq.<joint> (1)

a: proper spatial acceleration; f: wrench on the body below the joint by the one above, in the
frame of the body below; fx: wrench on the link by the environment; linear first. A floating root
hangs on no joint and has a and fx alone; a root that is held has nothing.
"""

from __future__ import annotations

from bodysense.estimation.map_dynamics.body_tree import BodyTree
from bodysense.estimation.named_slices import NamedSlices


class Variables(NamedSlices):
    """Names ↔ slices of the unknowns d."""

    @classmethod
    def of_tree(cls, tree: BodyTree) -> Variables:
        """The unknowns of all bodies, in the order of the tree."""
        sizes: list[tuple[str, int]] = []
        for i in tree.with_unknowns:
            link = tree.names[i]
            if i == 0:
                sizes += [(f"a.{link}", 6), (f"fx.{link}", 6)]
                continue
            joint = tree.joint_name(i)
            sizes += [(f"a.{link}", 6), (f"f.{joint}", 6), (f"tau.{joint}", 1)]
            sizes += [(f"fx.{link}", 6), (f"ddq.{joint}", 1)]
        return cls.of("quantity", sizes)


def equation_rows(tree: BodyTree) -> NamedSlices:
    """Rows of D: acceleration.<link> (6), wrench.<link> (6), torque.<joint> (1) for every body.

    A floating root has its wrench balance alone.
    """
    sizes: list[tuple[str, int]] = []
    for i in tree.with_unknowns:
        link = tree.names[i]
        if i == 0:
            sizes.append((f"wrench.{link}", 6))
            continue
        sizes += [(f"acceleration.{link}", 6), (f"wrench.{link}", 6)]
        sizes.append((f"torque.{tree.joint_name(i)}", 1))
    return NamedSlices.of("equation", sizes)
