"""Cut the photographs listed in SOURCES.md into the labelled WebDataset shards in the folder of this file.

Usage: make.py PICTURES

PICTURES is a folder with the source files, named as in SOURCES.md. The crops depend only on the tables below, and the tar
headers contain no time, user or mode of the machine. The JPEG bytes also depend on the version of Pillow (and of its
libjpeg), which SOURCES.md names.
"""

from __future__ import annotations

import argparse
import io
import random
import tarfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

SHARDS = 4
CROPS_PER_PHOTOGRAPH = 8
SIDE_MIN = 300
SIDE_MAX = 460
JPEG_QUALITY = 88


@dataclass(frozen=True)
class Photograph:
    """One source file. The index of the photograph in the table is its label."""

    subject: str
    file: str


PHOTOGRAPHS = (
    Photograph("astronaut", "astronaut.png"),
    Photograph("blossom", "u76c0g_bliznaca_srgb8.png"),
    Photograph("brick", "brick.png"),
    Photograph("cat", "chelsea.png"),
    Photograph("coast", "cvo9xd_keong_macan_srgb8.png"),
    Photograph("coffee", "coffee.png"),
    Photograph("eagle", "eagle.png"),
    Photograph("galaxies", "hubble_deep_field.jpg"),
    Photograph("grass", "grass.png"),
    Photograph("gravel", "gravel.png"),
    Photograph("photographer", "camera.png"),
    Photograph("retina", "retina.jpg"),
    Photograph("rocket", "rocket.jpg"),
    Photograph("tulips", "tmshre_riaphotographs_srgb8.png"),
)


@dataclass(frozen=True)
class Sample:
    """One entry of a shard: a JPEG and the index of its subject."""

    key: str
    label: int
    jpeg: bytes


def main() -> None:
    """Write the shards and the list of labels to the folder of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", type=Path, help="folder with the source files")
    pictures: Path = parser.parse_args().pictures
    here = Path(__file__).resolve().parent

    samples = [sample for label, photo in enumerate(PHOTOGRAPHS) for sample in cut(photo, label, pictures)]
    # Interleave the subjects, so that every shard contains several subjects.
    random.Random("order").shuffle(samples)
    for shard in range(SHARDS):
        write_shard(here / f"photos-{shard:04}.tar", samples[shard::SHARDS])
    (here / "labels.txt").write_text("".join(f"{photo.subject}\n" for photo in PHOTOGRAPHS), encoding="ascii")


def cut(photo: Photograph, label: int, pictures: Path) -> list[Sample]:
    """Take distinct crops of one photograph at its own resolution. The crops of a small photograph overlap."""
    image = Image.open(pictures / photo.file).convert("RGB")
    draw = random.Random(photo.subject)
    boxes: set[tuple[int, int, int, int]] = set()
    while len(boxes) < CROPS_PER_PHOTOGRAPH:
        width = draw.randint(SIDE_MIN, min(SIDE_MAX, image.width))
        height = draw.randint(SIDE_MIN, min(SIDE_MAX, image.height))
        left = draw.randint(0, image.width - width)
        top = draw.randint(0, image.height - height)
        boxes.add((left, top, left + width, top + height))
    return [
        Sample(f"{photo.subject}-{index:02}", label, encode(image.crop(box)))
        for index, box in enumerate(sorted(boxes))
    ]


def encode(image: Image.Image) -> bytes:
    """Encode as a baseline JPEG without metadata."""
    out = io.BytesIO()
    image.save(out, "JPEG", quality=JPEG_QUALITY, progressive=False, optimize=True)
    return out.getvalue()


def write_shard(path: Path, samples: list[Sample]) -> None:
    """Write one WebDataset shard: `<key>.jpg` and `<key>.cls` next to each other."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for sample in samples:
            for extension, body in (("jpg", sample.jpeg), ("cls", str(sample.label).encode("ascii"))):
                entry = tarfile.TarInfo(f"{sample.key}.{extension}")
                entry.size = len(body)
                entry.mode = 0o644
                tar.addfile(entry, io.BytesIO(body))


if __name__ == "__main__":
    main()
