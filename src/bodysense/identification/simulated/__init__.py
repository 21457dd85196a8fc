"""Methods that simulate the closed loop of robot and controller, and what they need."""
