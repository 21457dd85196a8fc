"""External torques and wrenches from generalised momentum, without accelerations."""
