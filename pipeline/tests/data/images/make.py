"""Writes the pictures of this folder and the pixels that Pillow decodes.

    pip install pillow numpy && python make.py

Each picture NAME has a file NAME.raw with its rows of pixels, channels interleaved, as Pillow (libjpeg-turbo, libpng,
libwebp) decodes the picture. The picture is computed, so that no photograph is distributed.
"""

import io
import pathlib
import random

import numpy
from PIL import Image

HERE = pathlib.Path(__file__).parent
HEIGHT, WIDTH = 37, 53


def picture() -> numpy.ndarray:
    """Returns a picture with gradients, an edge, a disc and noise, so that all JPEG coefficients occur."""
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    red = 255 * x / WIDTH
    green = 127 + 120 * numpy.sin(y / 3.0)
    blue = numpy.where((x - 30) ** 2 + (y - 15) ** 2 < 120, 230.0, 40.0)
    rgb = numpy.stack([red, green, blue], axis=-1)
    rgb[:, 20:23] = 255 - rgb[:, 20:23]
    noise = random.Random(7)
    rgb += numpy.array([noise.gauss(0, 12) for _ in range(HEIGHT * WIDTH * 3)]).reshape(rgb.shape)
    return rgb.clip(0, 255).astype(numpy.uint8)


def save(name: str, image: Image.Image, decoded: str, **options) -> None:
    buffer = io.BytesIO()
    image.save(buffer, **options)
    (HERE / name).write_bytes(buffer.getvalue())
    found = Image.open(io.BytesIO(buffer.getvalue()))
    if found.mode == "I;16":
        found = Image.fromarray((numpy.asarray(found) >> 8).astype(numpy.uint8))
    (HERE / (name + ".raw")).write_bytes(numpy.asarray(found.convert(decoded)).tobytes())


def main() -> None:
    rgb = Image.fromarray(picture())
    grey = rgb.convert("L")
    alpha = Image.fromarray(numpy.mgrid[0:HEIGHT, 0:WIDTH].sum(axis=0).astype(numpy.uint8) * 2)
    rgba = rgb.copy()
    rgba.putalpha(alpha)

    for name, subsampling in [("444", 0), ("422", 1), ("420", 2)]:
        save(f"baseline-{name}.jpg", rgb, "RGB", format="JPEG", quality=90, subsampling=subsampling)
    save("low-quality.jpg", rgb, "RGB", format="JPEG", quality=20)
    save("optimised.jpg", rgb, "RGB", format="JPEG", quality=95, optimize=True)
    save("restarts.jpg", rgb, "RGB", format="JPEG", quality=85, restart_marker_blocks=3)
    save("grey.jpg", grey, "L", format="JPEG", quality=90)
    save("progressive.jpg", rgb, "RGB", format="JPEG", quality=90, progressive=True)
    save("one-pixel.jpg", rgb.crop((0, 0, 1, 1)), "RGB", format="JPEG", quality=90)
    # Large coefficients without zeros between them, whose codes are the longest that the standard tables have.
    noise = numpy.random.default_rng(1).integers(0, 2, (HEIGHT, WIDTH, 3), dtype=numpy.uint8) * 255
    for name, subsampling in [("444", 0), ("420", 2)]:
        save(f"noise-{name}.jpg", Image.fromarray(noise), "RGB", format="JPEG", quality=100, subsampling=subsampling)
    save("narrow.jpg", rgb.crop((0, 0, 3, 37)), "RGB", format="JPEG", quality=90)

    save("rgb.png", rgb, "RGB", format="PNG")
    save("rgba.png", rgba, "RGBA", format="PNG")
    save("grey.png", grey, "L", format="PNG")
    save("grey-alpha.png", rgba.convert("LA"), "LA", format="PNG")
    save("palette.png", rgb.quantize(16), "RGB", format="PNG")
    save("one-bit.png", grey.convert("1"), "L", format="PNG")
    deep = Image.fromarray((numpy.asarray(grey).astype(numpy.uint16) * 256) + 77)
    save("sixteen-bit.png", deep, "L", format="PNG")

    save("lossless.webp", rgb, "RGB", format="WEBP", lossless=True)
    save("lossless-alpha.webp", rgba, "RGBA", format="WEBP", lossless=True, exact=True)
    save("lossy.webp", rgb, "RGB", format="WEBP", quality=80)
    save("animated.webp", rgb, "RGBA", format="WEBP", lossless=True, save_all=True, append_images=[rgb.rotate(180)])


if __name__ == "__main__":
    main()
