"""Maximum-a-posteriori dynamics: every acceleration, wrench and torque from redundant sensors."""
