"""Build the site: `python -m docs_site FOLDER` writes its pages in Markdown and has Sphinx make HTML of them."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from docs_site.build import write

HERE = Path(__file__).resolve().parent


def main(folder: Path) -> int:
    """Build into a folder, whole or not at all; returns Sphinx's exit code."""
    with tempfile.TemporaryDirectory() as place:
        pages, made, trees = Path(place, "pages"), Path(place, "site"), Path(place, "trees")
        write(pages)
        command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-j", "2", "-c", str(HERE)]
        done = subprocess.run([*command, "-d", str(trees), str(pages), str(made)], check=False)
        if done.returncode:
            return done.returncode
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(made, folder)
    print(f"{folder}{os.sep}index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
