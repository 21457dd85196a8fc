"""Identifiers whose links can always exist as bodies."""
