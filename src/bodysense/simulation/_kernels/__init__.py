"""Compiled closed-loop simulation: rollouts and their sensitivities."""
