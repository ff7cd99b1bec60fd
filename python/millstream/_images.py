"""Methods of datasets that change a component with a picture. Sizes are in pixels, and rows come before columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._arguments import seed_of
from ._options import error_policy
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from ._dataset import Dataset
    from ._millstream import Graph

__all__ = ["ImageMethods"]

#: A pair of height and width, or the height alone if the width is the next argument.
Size = int | tuple[int, int]


def _size(height: Size, width: int | None = None) -> tuple[int, int]:
    """Returns height and width, from a pair or from two arguments."""
    if isinstance(height, int):
        if width is None:
            raise InvalidArgumentError(f"a size is height and width: ({height}, width), not only {height}")
        return height, width
    if width is not None or len(height) != 2:
        raise InvalidArgumentError(f"a size is height and width, not {height!r}" + ("" if width is None else f" and {width}"))
    rows, columns = height
    return rows, columns


class ImageMethods:
    """The methods of a dataset that change a component with a picture. An empty name selects the only component."""

    _graph: Graph

    def _then(self, graph: Graph) -> Dataset:
        raise NotImplementedError

    def _computed(self, operation: str, **parameters: Any) -> Dataset:
        # A function of pictures costs milliseconds, so a single thread would limit most datasets. The tuner chooses the number of threads.
        return self._then(self._graph.then(operation, **parameters).parallel(0))

    def decode_image(
        self, component: str = "", *, channels: int | None = None, on_error: str = "raise"
    ) -> Dataset:
        """Decodes JPEG, PNG or WebP images to ``uint8`` arrays of height, width and channels.

        Args:
            component: The name of the component that contains the encoded bytes; empty if the whole element is the bytes.
            channels: The number of channels: 1, 3 or 4, or 0 for the number of channels in the image. The default is 3.
            on_error: Raises an error for an image that cannot be decoded (``"raise"``), or skips the element (``"skip"``).

        Returns:
            The new dataset.
        """
        return self._computed("decode_image", component=component, channels=channels, on_error=error_policy(on_error))

    def resize(
        self,
        component: str = "",
        size: tuple[int, int] = (224, 224),
        *,
        method: str = "bilinear",
        antialias: bool = True,
    ) -> Dataset:
        """Resizes images to a height and a width.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.
            size: The height and the width of the result.
            method: The interpolation method: ``nearest``, ``bilinear``, ``bicubic``, ``area`` or ``lanczos3``.
            antialias: Whether to apply an antialiasing filter when the image shrinks.

        Returns:
            The new dataset.

        Example:
            >>> images = ms.Dataset.from_tensors(np.zeros((6, 8, 3), np.uint8))
            >>> next(iter(images.resize("", (3, 4)))).shape
            (3, 4, 3)
        """
        height, width = _size(size)
        return self._computed("resize", component=component, height=height, width=width, method=method, antialias=antialias)

    def crop(self, component: str, top: int, left: int, height: Size, width: int | None = None) -> Dataset:
        """Crops a fixed part of each image. The part must be within every image.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.
            top: The first row of the part.
            left: The first column of the part.
            height: The number of rows, or a pair ``(height, width)``.
            width: The number of columns.

        Returns:
            The new dataset.

        Example:
            >>> images = ms.Dataset.from_tensors(np.zeros((6, 8, 3), np.uint8))
            >>> next(iter(images.crop("", 1, 2, 3, 4))).shape
            (3, 4, 3)
        """
        rows, columns = _size(height, width)
        return self._computed("crop", component=component, top=top, left=left, height=rows, width=columns)

    def central_crop(self, component: str, fraction: float) -> Dataset:
        """Crops the central part of each image.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.
            fraction: The fraction of the height and of the width to keep, up to 1.

        Returns:
            The new dataset.
        """
        return self._computed("central_crop", component=component, fraction=float(fraction))

    def center_crop(self, component: str, height: Size, width: int | None = None) -> Dataset:
        """Crops the central part of each image to a size.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.
            height: The number of rows, or a pair ``(height, width)``.
            width: The number of columns.

        Returns:
            The new dataset.
        """
        rows, columns = _size(height, width)
        return self._computed("center_crop", component=component, height=rows, width=columns)

    def random_crop(
        self, component: str, height: Size, width: int | None = None, seed: int | None = None
    ) -> Dataset:
        """Crops a part of each image at a random position.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.
            height: The number of rows, or a pair ``(height, width)``.
            width: The number of columns.
            seed: The seed of the random draws.

        Returns:
            The new dataset.
        """
        rows, columns = _size(height, width)
        return self._computed("random_crop", component=component, height=rows, width=columns, seed=seed_of(seed))

    def random_resized_crop(
        self,
        component: str,
        size: tuple[int, int],
        *,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        seed: int | None = None,
    ) -> Dataset:
        """Crops a random part of each image, and resizes the part.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.
            size: The height and the width of the result.
            scale: The range of the part's area, as a fraction of the image's area.
            ratio: The range of the part's aspect ratio, which is width divided by height.
            seed: The seed of the random draws.

        Returns:
            The new dataset.
        """
        height, width = _size(size)
        return self._computed(
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

    def flip_left_right(self, component: str = "") -> Dataset:
        """Flips each image from left to right.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.

        Returns:
            The new dataset.
        """
        return self._computed("flip", component=component, axis="left_right")

    def flip_up_down(self, component: str = "") -> Dataset:
        """Flips each image upside down.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.

        Returns:
            The new dataset.
        """
        return self._computed("flip", component=component, axis="up_down")

    def random_flip_left_right(self, component: str = "", seed: int | None = None) -> Dataset:
        """Flips each image from left to right with a probability of one half.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.
            seed: The seed of the random draws.

        Returns:
            The new dataset.
        """
        return self._computed("flip", component=component, axis="left_right", probability=0.5, seed=seed_of(seed))

    def random_flip_up_down(self, component: str = "", seed: int | None = None) -> Dataset:
        """Flips each image upside down with a probability of one half.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.
            seed: The seed of the random draws.

        Returns:
            The new dataset.
        """
        return self._computed("flip", component=component, axis="up_down", probability=0.5, seed=seed_of(seed))

    def color_jitter(
        self, component: str, *, brightness: Any = None, contrast: Any = None, saturation: Any = None, hue: Any = None,
        seed: int | None = None,
    ) -> Dataset:
        """Changes the colours of each image by random amounts within ranges.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.
            brightness: A range of factors ``(low, high)``, or ``x`` for ``(1 - x, 1 + x)``.
            contrast: A range of factors, in the same form as ``brightness``.
            saturation: A range of factors, in the same form as ``brightness``.
            hue: A range of turns of the colour circle ``(low, high)``, or ``x`` for ``(-x, x)``.
            seed: The seed of the random draws.

        Returns:
            The new dataset.
        """
        return self._computed(
            "color_jitter",
            component=component,
            brightness=brightness,
            contrast=contrast,
            saturation=saturation,
            hue=hue,
            seed=seed_of(seed),
        )

    def normalize(self, component: str, mean: list[float], std: list[float]) -> Dataset:
        """Computes ``(value / 255 - mean) / std`` as ``float32``.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.
            mean: The mean of each channel, or one mean for all channels.
            std: The standard deviation of each channel, or one standard deviation for all channels.

        Returns:
            The new dataset.
        """
        return self._computed("normalize", component=component, mean=[*map(float, mean)], std=[*map(float, std)])

    def rgb_to_grayscale(self, component: str = "", channels: int = 1) -> Dataset:
        """Converts images from RGB to grayscale.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.
            channels: The number of equal channels of the result, 1 or 3.

        Returns:
            The new dataset.
        """
        return self._computed("rgb_to_grayscale", component=component, channels=channels)

    def hwc_to_chw(self, component: str = "") -> Dataset:
        """Moves the channels to the first dimension, as torch expects.

        Args:
            component: The name of the component that contains the image; empty if the whole element is the image.

        Returns:
            The new dataset.

        Example:
            >>> images = ms.Dataset.from_tensors(np.zeros((6, 8, 3), np.uint8))
            >>> next(iter(images.hwc_to_chw())).shape
            (3, 6, 8)
        """
        return self._computed("hwc_to_chw", component=component)
