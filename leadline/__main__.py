"""`python -m leadline` is `leadline`."""

from leadline.cli import main

main()
