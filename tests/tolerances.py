"""How close is close: the only tolerances in the tests."""

CLOSED_FORM = {"float32": 1e-5, "float64": 1e-8}
GRADIENT = 1e-4
STANDARD_ERRORS = 4
