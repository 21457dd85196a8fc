"""Sections of the report of an identification, one file each: what they show, ready to be drawn."""
