"""How close is close: the only tolerances in the tests."""

CLOSED_FORM = {"float32": 1e-5, "float64": 1e-8}
GRADIENT = 1e-4
STANDARD_ERRORS = 4

# Float32 results that went through many sums, in another order or with other shapes.
MANY_SUMS = 1e-4
# Two trainings of dozens of steps whose rounding differs: differences grow from step to step.
TRAJECTORY = 1e-3
# Numbers that a document says are printed: another CPU's rounding, through whole trainings, moves the last digits.
PRINTED = {"rel": 0.02, "abs": 0.02}
# What the two factors of a product, of eight binary digits each, do to it; many products add theirs up.
BFLOAT16 = 2**-8
