"""`python -m mqlearn` does what `mqlearn` does."""

from mqlearn.cli.main import main

main()
