"""Pictures: methods of datasets that change one component. Sizes are in pixels, rows before columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._arguments import seed_of
from .errors import InvalidArgumentError
from ._options import skips_errors

if TYPE_CHECKING:
    from ._millstream import Graph
    from ._dataset import Dataset

__all__ = ["ImageMethods"]

#: Height and width, or the height alone where the width follows.
Size = int | tuple[int, int]


def _size(height: Size, width: int | None = None) -> tuple[int, int]:
    """Returns height and width, which are given as a pair or one after the other."""
    if isinstance(height, int):
        if width is None:
            raise InvalidArgumentError(f"a size is height and width: ({height}, width), not {height} alone")
        return height, width
    if width is not None or len(height) != 2:
        raise InvalidArgumentError(f"a size is height and width, not {height!r}" + ("" if width is None else f" and {width}"))
    rows, columns = height
    return rows, columns


class ImageMethods:
    """What a dataset can do with a component that is a picture; an empty name is the only component."""

    _graph: Graph

    def _then(self, graph: Graph) -> Dataset:
        raise NotImplementedError

    def decode_image(
        self, component: str = "", *, channels: int | None = None, on_error: str = "raise"
    ) -> Dataset:
        """Decodes JPEG, PNG or WebP to ``uint8`` of height, width and channels."""
        return self._then(self._graph.decode_image(component, channels, skips_errors(on_error)))

    def resize(
        self,
        component: str = "",
        size: tuple[int, int] = (224, 224),
        *,
        method: str = "bilinear",
        antialias: bool = True,
    ) -> Dataset:
        """Resizes to height and width: ``nearest``, ``bilinear``, ``bicubic``, ``area`` or ``lanczos3``."""
        return self._then(self._graph.resize(component, *_size(size), method, antialias))

    def crop(self, component: str, top: int, left: int, height: Size, width: int | None = None) -> Dataset:
        """A part that lies within every picture. Its size is ``(height, width)``, or two numbers."""
        return self._then(self._graph.crop(component, top, left, *_size(height, width)))

    def central_crop(self, component: str, fraction: float) -> Dataset:
        """The middle: a part of each side."""
        return self._then(self._graph.central_crop(component, fraction))

    def center_crop(self, component: str, height: Size, width: int | None = None) -> Dataset:
        """The middle, of the size ``(height, width)``, or of two numbers."""
        return self._then(self._graph.center_crop(component, *_size(height, width)))

    def random_crop(
        self, component: str, height: Size, width: int | None = None, seed: int | None = None
    ) -> Dataset:
        """A part at a random place, of the size ``(height, width)``, or of two numbers."""
        return self._then(self._graph.random_crop(component, *_size(height, width), seed_of(seed)))

    def random_resized_crop(
        self,
        component: str,
        size: tuple[int, int],
        *,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        seed: int | None = None,
    ) -> Dataset:
        """A random part, resized."""
        return self._then(self._graph.random_resized_crop(component, _size(size), scale, ratio, seed_of(seed)))

    def flip_left_right(self, component: str = "") -> Dataset:
        """Mirrored."""
        return self._then(self._graph.flip(component, "left_right", False, None))

    def flip_up_down(self, component: str = "") -> Dataset:
        """Upside down."""
        return self._then(self._graph.flip(component, "up_down", False, None))

    def random_flip_left_right(self, component: str = "", seed: int | None = None) -> Dataset:
        """Every other one mirrored, by chance."""
        return self._then(self._graph.flip(component, "left_right", True, seed_of(seed)))

    def random_flip_up_down(self, component: str = "", seed: int | None = None) -> Dataset:
        """Every other one upside down, by chance."""
        return self._then(self._graph.flip(component, "up_down", True, seed_of(seed)))

    def color_jitter(
        self, component: str, *, brightness: Any = None, contrast: Any = None, saturation: Any = None, hue: Any = None,
        seed: int | None = None,
    ) -> Dataset:
        """Colours changed by chance, each within a range."""
        return self._then(self._graph.color_jitter(component, brightness, contrast, saturation, hue, seed_of(seed)))

    def normalize(self, component: str, mean: list[float], std: list[float]) -> Dataset:
        """``(value / 255 - mean) / std`` as ``float32``, with one of each a channel, or one for all."""
        return self._then(self._graph.normalize(component, list(mean), list(std)))

    def rgb_to_grayscale(self, component: str = "", channels: int = 1) -> Dataset:
        """Without colours."""
        return self._then(self._graph.rgb_to_grayscale(component, channels))

    def hwc_to_chw(self, component: str = "") -> Dataset:
        """With the channels first, as torch wants them."""
        return self._then(self._graph.hwc_to_chw(component))
