"""What the sensors can see, before anything is measured, and which would show the rest."""

from bodysense.estimation.map_dynamics.observability.helpful_sensors import Help
from bodysense.estimation.map_dynamics.observability.report import Observability
from bodysense.estimation.map_dynamics.observability.seen import observability

__all__ = ["Help", "Observability", "observability"]
