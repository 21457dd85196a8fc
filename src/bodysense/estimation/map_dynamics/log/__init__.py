"""Estimates from recordings: channels and times of a log, its estimates, and files of them."""
