"""The pictures of the page in ``docs/images``, taken again: ``python -m docs.screenshots``."""

import io
from pathlib import Path

from benchmarks.explored import explored
from PIL import Image

_SHOTS = {
    "explore-light.png": (1280, 1240, "light"),
    "explore-dark.png": (1280, 1240, "dark"),
    "explore-phone.png": (390, 1500, "light"),
}


def main() -> None:
    """Open the page once per picture."""
    folder = Path(__file__).parent / "images"
    for name, (width, height, scheme) in _SHOTS.items():
        with explored("three-state", width=width, height=height, scheme=scheme) as page:
            page.locator("#frontier .x-title").wait_for()
            page.wait_for_timeout(1500)
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        picture.quantize(256, dither=Image.Dither.NONE).save(folder / name, optimize=True)


if __name__ == "__main__":
    main()
