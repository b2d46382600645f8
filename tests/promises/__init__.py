"""Promises, each with a generator of cases that could break it."""
