"""Pictures: methods of datasets that change one component. Sizes are in pixels, rows before columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._arguments import seed_of
from ._options import error_policy
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._millstream import Graph

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
        """Decodes JPEG, PNG or WebP to ``uint8`` of height, width and channels.

        Args:
            component: The component with the bytes; empty if the element is the bytes.
            channels: 1, 3 or 4; by default those of the image.
            on_error: ``"raise"`` or ``"skip"``, for images that cannot be decoded.

        Returns:
            The new dataset.
        """
        return self._then(self._graph.then("decode_image", component=component, channels=channels, on_error=error_policy(on_error)))

    def resize(
        self,
        component: str = "",
        size: tuple[int, int] = (224, 224),
        *,
        method: str = "bilinear",
        antialias: bool = True,
    ) -> Dataset:
        """Resizes an image.

        Args:
            component: The component of the image; empty if the element is the image.
            size: Height and width.
            method: ``nearest``, ``bilinear``, ``bicubic``, ``area`` or ``lanczos3``.
            antialias: Whether to filter when shrinking.

        Returns:
            The new dataset.

        Example:
            >>> images = ms.Dataset.from_tensors(np.zeros((6, 8, 3), np.uint8))
            >>> next(iter(images.resize("", (3, 4)))).shape
            (3, 4, 3)
        """
        height, width = _size(size)
        return self._then(
            self._graph.then("resize", component=component, height=height, width=width, method=method, antialias=antialias)
        )

    def crop(self, component: str, top: int, left: int, height: Size, width: int | None = None) -> Dataset:
        """Crops a fixed part, which must lie within every image.

        Args:
            component: The component of the image; empty if the element is the image.
            top: The first row.
            left: The first column.
            height: Rows, or ``(height, width)``.
            width: Columns.

        Returns:
            The new dataset.

        Example:
            >>> images = ms.Dataset.from_tensors(np.zeros((6, 8, 3), np.uint8))
            >>> next(iter(images.crop("", 1, 2, 3, 4))).shape
            (3, 4, 3)
        """
        rows, columns = _size(height, width)
        return self._then(self._graph.then("crop", component=component, top=top, left=left, height=rows, width=columns))

    def central_crop(self, component: str, fraction: float) -> Dataset:
        """Crops the middle of an image.

        Args:
            component: The component of the image; empty if the element is the image.
            fraction: The part of each side to keep, up to 1.

        Returns:
            The new dataset.
        """
        return self._then(self._graph.then("central_crop", component=component, fraction=float(fraction)))

    def center_crop(self, component: str, height: Size, width: int | None = None) -> Dataset:
        """Crops the middle of an image to a size.

        Args:
            component: The component of the image; empty if the element is the image.
            height: Rows, or ``(height, width)``.
            width: Columns.

        Returns:
            The new dataset.
        """
        rows, columns = _size(height, width)
        return self._then(self._graph.then("center_crop", component=component, height=rows, width=columns))

    def random_crop(
        self, component: str, height: Size, width: int | None = None, seed: int | None = None
    ) -> Dataset:
        """Crops a part at a random place.

        Args:
            component: The component of the image; empty if the element is the image.
            height: Rows, or ``(height, width)``.
            width: Columns.
            seed: The seed of the draws.

        Returns:
            The new dataset.
        """
        rows, columns = _size(height, width)
        return self._then(
            self._graph.then("random_crop", component=component, height=rows, width=columns, seed=seed_of(seed))
        )

    def random_resized_crop(
        self,
        component: str,
        size: tuple[int, int],
        *,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        seed: int | None = None,
    ) -> Dataset:
        """Crops a random part and resizes it.

        Args:
            component: The component of the image; empty if the element is the image.
            size: Height and width of the result.
            scale: The part's share of the image's area.
            ratio: The part's aspect ratio, width by height.
            seed: The seed of the draws.

        Returns:
            The new dataset.
        """
        height, width = _size(size)
        return self._then(
            self._graph.then(
                "random_resized_crop",
                component=component,
                height=height,
                width=width,
                scale_min=float(scale[0]),
                scale_max=float(scale[1]),
                ratio_min=float(ratio[0]),
                ratio_max=float(ratio[1]),
                seed=seed_of(seed),
            )
        )

    def flip_left_right(self, component: str = "") -> Dataset:
        """Mirrors an image.

        Args:
            component: The component of the image; empty if the element is the image.

        Returns:
            The new dataset.
        """
        return self._then(self._graph.then("flip", component=component, axis="left_right"))

    def flip_up_down(self, component: str = "") -> Dataset:
        """Turns an image upside down.

        Args:
            component: The component of the image; empty if the element is the image.

        Returns:
            The new dataset.
        """
        return self._then(self._graph.then("flip", component=component, axis="up_down"))

    def random_flip_left_right(self, component: str = "", seed: int | None = None) -> Dataset:
        """Mirrors every other image, by chance.

        Args:
            component: The component of the image; empty if the element is the image.
            seed: The seed of the draws.

        Returns:
            The new dataset.
        """
        return self._then(self._graph.then("flip", component=component, axis="left_right", probability=0.5, seed=seed_of(seed)))

    def random_flip_up_down(self, component: str = "", seed: int | None = None) -> Dataset:
        """Turns every other image upside down, by chance.

        Args:
            component: The component of the image; empty if the element is the image.
            seed: The seed of the draws.

        Returns:
            The new dataset.
        """
        return self._then(self._graph.then("flip", component=component, axis="up_down", probability=0.5, seed=seed_of(seed)))

    def color_jitter(
        self, component: str, *, brightness: Any = None, contrast: Any = None, saturation: Any = None, hue: Any = None,
        seed: int | None = None,
    ) -> Dataset:
        """Changes the colours at random, each property within a range.

        Args:
            component: The component of the image; empty if the element is the image.
            brightness: A range of factors ``(low, high)``, or ``x`` for ``(1 - x, 1 + x)``.
            contrast: A range of factors, as ``brightness``.
            saturation: A range of factors, as ``brightness``.
            hue: A range of turns of the colour circle ``(low, high)``, or ``x`` for ``(-x, x)``.
            seed: The seed of the draws.

        Returns:
            The new dataset.
        """
        return self._then(
            self._graph.then(
                "color_jitter",
                component=component,
                brightness=brightness,
                contrast=contrast,
                saturation=saturation,
                hue=hue,
                seed=seed_of(seed),
            )
        )

    def normalize(self, component: str, mean: list[float], std: list[float]) -> Dataset:
        """Computes ``(value / 255 - mean) / std`` as ``float32``.

        Args:
            component: The component of the image; empty if the element is the image.
            mean: A mean for each channel, or one for all.
            std: A standard deviation for each channel, or one for all.

        Returns:
            The new dataset.
        """
        return self._then(self._graph.then("normalize", component=component, mean=[*map(float, mean)], std=[*map(float, std)]))

    def rgb_to_grayscale(self, component: str = "", channels: int = 1) -> Dataset:
        """Removes the colours.

        Args:
            component: The component of the image; empty if the element is the image.
            channels: Equal channels of the result, 1 or 3.

        Returns:
            The new dataset.
        """
        return self._then(self._graph.then("rgb_to_grayscale", component=component, channels=channels))

    def hwc_to_chw(self, component: str = "") -> Dataset:
        """Puts the channels first, as torch expects them.

        Args:
            component: The component of the image; empty if the element is the image.

        Returns:
            The new dataset.

        Example:
            >>> images = ms.Dataset.from_tensors(np.zeros((6, 8, 3), np.uint8))
            >>> next(iter(images.hwc_to_chw())).shape
            (3, 6, 8)
        """
        return self._then(self._graph.then("hwc_to_chw", component=component))
