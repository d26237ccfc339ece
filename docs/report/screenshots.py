"""Takes the report's screenshots in Chromium: desk and phone width, light and dark.

    python docs/report/screenshots.py PAGE.html [FOLDER [HEIGHT]]

Each is the page from its top, cut where it ends or after HEIGHT pixels, in 128 colours.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

WIDTHS = {"desk": 1100, "phone": 390}
SCHEMES = {"dark": 0, "light": 1}  # of Blink's preferredColorScheme
HEIGHT = 3_000
#: Chromium's window has a least width, so that a phone is a frame in a wider window.
FRAME = '<body style="margin:0"><iframe src="{page}" style="border:0;width:{width}px;height:{height}px"></iframe>'


def shoot(page: Path, *, size: tuple[int, int], scheme: int, picture: Path) -> None:
    """Write one screenshot."""
    width, height = size
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder) / "frame.html"
        frame.write_text(FRAME.format(page=page.resolve().as_uri(), width=width, height=height))
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
        command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command += ["--allow-file-access-from-files", "--hide-scrollbars", f"--user-data-dir={folder}/profile"]
        command += [f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={max(width, 600)},{height}"]
        command += [f"--screenshot={picture}", frame.as_uri()]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - every word of it stands above
    with Image.open(picture) as taken:
        shot = taken.convert("RGB").crop((0, 0, width, height))
    ground = Image.new("RGB", shot.size, shot.getpixel((2, height - 2)))
    box = ImageChops.difference(shot, ground).getbbox()
    bottom = min(height, box[3] + 24) if box else height
    shot.crop((0, 0, width, bottom)).quantize(128).save(picture, optimize=True)


def main() -> None:
    """Take all four."""
    page, folder, height = [*sys.argv[1:], *[Path(__file__).parent, HEIGHT][len(sys.argv) - 2 :]]
    for name, width in WIDTHS.items():
        for scheme, number in SCHEMES.items():
            shoot(Path(page), size=(width, int(height)), scheme=number, picture=Path(folder) / f"{name}-{scheme}.png")


if __name__ == "__main__":
    main()
