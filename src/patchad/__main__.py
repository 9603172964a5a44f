"""`python -m patchad`."""

from patchad.cli.main import main

main()
