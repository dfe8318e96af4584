"""Make the README's picture: a real run on a fresh home, as it stands on a terminal."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

CONCH = Path(sys.executable).with_name("conch")
TARGET = Path(__file__).parent / "pictures" / "run.svg"


def said(*command: str) -> str:
    """What a command prints."""
    return subprocess.run([str(CONCH), *command], capture_output=True, text=True, check=True).stdout


def style_of(line: str) -> str:
    """Commands stand out, outcomes have their colour."""
    if line.startswith("$"):
        return "bold"
    if not line.lstrip()[:1].isdigit():
        return ""
    return "green" if " success " in line else "red" if " error " in line else ""


def main() -> None:
    """Run, ask for the status, draw both."""
    with tempfile.TemporaryDirectory() as directory:
        home = str(Path(directory) / "home")
        run = said("run", "--home", home, "--cycles", "16", "--interval", "0.2", "--seed", "1")
        status = said("status", "--home", home)
        text = f"$ ./ops/run\n{run}\n$ conch status\n{status}".replace(home, "~/.local/share/conch")
    console = Console(record=True, width=112, file=io.StringIO(), force_terminal=True)
    for line in text.splitlines():
        style = (
            "bold" if line.startswith("$") else "green" if " success " in line else "red" if " error " in line else ""
        )
        console.print(Text(line, style=style))
    drawn = console.export_svg(title="conch")
    TARGET.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))  # no font from somebody's server
    print(TARGET)


if __name__ == "__main__":
    main()
