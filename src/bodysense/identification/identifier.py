"""What an identifier is: hyper-parameters in the constructor, data in `fit`, a result out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from bodysense.identification.identification import Identification
from bodysense.identification.regression import Regression
from bodysense.spatial.arrays import Array


class Identifier(ABC):
    """A method that finds parameters. Implementations are frozen dataclasses, registered by name.

    Class attributes:
        name: as given on the command line.
        about: one line for tables.
        needs: what must be known beside the robot and the log.
        cost: what it takes, in words.
        when: one line of advice when to use it.
        consistent: whether links always come out as possible bodies.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    needs: ClassVar[str]
    cost: ClassVar[str]
    when: ClassVar[str]
    consistent: ClassVar[bool] = False

    @abstractmethod
    def fit(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Identification:
        """Identify.

        Args:
            problem: the data and the prior.
            rng: source of randomness, for methods that need any.
        """

    def theta(self, problem: Regression, *, rng: np.random.Generator | None = None) -> Array:
        """(p,) the estimate alone, for callers that do not ask how sure it is."""
        return self.fit(problem, rng=rng).theta
