"""Lets `python -m bodysense` do what the command `bodysense` does."""

from bodysense.cli.main import main

raise SystemExit(main())
