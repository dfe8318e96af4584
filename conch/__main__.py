"""`python -m conch`: the command `conch`, where its script is not on PATH."""

from conch.cli.main import main

main()
