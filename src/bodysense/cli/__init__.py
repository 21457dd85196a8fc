"""The command line: one file per command, and `main` that dispatches to them."""
