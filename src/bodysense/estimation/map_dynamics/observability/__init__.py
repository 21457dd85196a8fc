"""What the sensors can see, before anything is measured, and which would show the rest."""

from bodysense.estimation.map_dynamics.observability.observability import (
    Observability,
    observability,
)
from bodysense.estimation.map_dynamics.observability.suggestions import Help

__all__ = ["Help", "Observability", "observability"]
