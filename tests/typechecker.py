"""The checker of types in the tests: an int is a float where a float is asked for."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
