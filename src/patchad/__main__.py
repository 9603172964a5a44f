"""`python -m patchad`."""

from patchad.cli import main

main()
