"""What the robot feels: accelerations, torques and wrenches from whatever sensors it has."""
