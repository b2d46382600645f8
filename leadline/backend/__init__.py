"""The device, and all that is closer to it than to the model."""

from leadline.backend.compilation import keep_programs

keep_programs()  # before JAX compiles for the first time: later it would not be heard
