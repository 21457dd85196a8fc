"""Robot files: URDF, MJCF, DH tables, actuator files, example robots."""
