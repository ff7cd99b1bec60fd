"""Functions of images for ``Dataset.map``, named as in ``tf.image``. They are executed natively.

Owns the signatures. Refuses to know how pixels are computed. Methods of ``Dataset`` of similar names do the same to whole components, and
decode only the pixels that a following crop keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import ops
from ._arguments import seed_of
from ._calls import called_native
from ._dtypes import as_dtype, float32, uint8
from ._tensor import Tensor, convert_to_tensor
from .errors import InvalidArgumentError, UnimplementedError

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "central_crop",
    "convert_image_dtype",
    "crop_to_bounding_box",
    "decode_image",
    "flip_left_right",
    "flip_up_down",
    "grayscale_to_rgb",
    "per_image_standardization",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "resize",
    "rgb_to_grayscale",
    "transpose",
]


def decode_image(contents: Any, channels: int = 0, dtype: Any = uint8, name: str | None = None, expand_animations: bool = False) -> Tensor:
    """Decodes JPEG, PNG or WebP.

    Args:
        contents: The encoded bytes, a tensor of a function.
        channels: 1, 3 or 4; 0 for those of the image.
        dtype: ``uint8``, or ``float32`` for values from 0 to 1.
        name: Accepted as in TensorFlow; has no effect.
        expand_animations: Must be false: one picture is decoded.

    Returns:
        The pixels, of height, width and channels.
    """
    if expand_animations:
        raise UnimplementedError("decode_image: animations are not decoded, pass expand_animations=False")
    return convert_image_dtype(_called("decode_image", contents, channels=channels), dtype)


def resize(
    images: Any,
    size: Sequence[int],
    method: str = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Tensor:
    """Resizes an image. The result is ``float32``, except for the method ``nearest``, as in TensorFlow.

    Args:
        images: An image of height, width and channels.
        size: Height and width of the result.
        method: ``nearest``, ``bilinear``, ``bicubic``, ``area`` or ``lanczos3``.
        preserve_aspect_ratio: Must be false: the size of the result is the same for all images.
        antialias: Whether to filter when shrinking.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The resized image.

    Example:
        >>> images = ms.Dataset.from_tensors(np.zeros((6, 8, 3), np.uint8))
        >>> next(iter(images.map(lambda x: ms.image.resize(x, (3, 4))))).shape
        (3, 4, 3)
    """
    if preserve_aspect_ratio:
        raise UnimplementedError("resize: preserve_aspect_ratio=True is not supported, because elements would differ in their shapes")
    height, width = (int(side) for side in size)
    kind = str(getattr(method, "value", method)).lower()
    image = convert_to_tensor(images)
    if kind != "nearest":
        image = image.cast(float32)
    return _called("resize", image, height=height, width=width, method=kind, antialias=bool(antialias))


def crop_to_bounding_box(image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int) -> Tensor:
    """Crops a fixed part, which must be within every image.

    Args:
        image: An image of height, width and channels.
        offset_height: The first row.
        offset_width: The first column.
        target_height: The number of rows.
        target_width: The number of columns.

    Returns:
        The part.
    """
    return _called("crop", image, top=offset_height, left=offset_width, height=target_height, width=target_width)


def central_crop(image: Any, central_fraction: float) -> Tensor:
    """Crops the middle of an image.

    Args:
        image: An image of height, width and channels.
        central_fraction: The part of each side to keep, up to 1.

    Returns:
        The middle.
    """
    return _called("central_crop", image, fraction=float(central_fraction))


def random_crop(value: Any, size: Sequence[int], seed: int | None = None, name: str | None = None) -> Tensor:
    """Crops a part at a random place.

    Args:
        value: An image of height, width and channels.
        size: Height and width of the part; the number of channels may follow, and stays as it is.
        seed: The seed of the draws.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The part.
    """
    height, width = (int(side) for side in list(size)[:2])
    return _called("random_crop", value, height=height, width=width, seed=seed_of(seed))


def flip_left_right(image: Any) -> Tensor:
    """Mirrors an image.

    Args:
        image: An image of height, width and channels.

    Returns:
        The mirrored image.
    """
    return _called("flip", image, axis="left_right")


def flip_up_down(image: Any) -> Tensor:
    """Turns an image upside down.

    Args:
        image: An image of height, width and channels.

    Returns:
        The turned image.
    """
    return _called("flip", image, axis="up_down")


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Mirrors every other image, by chance.

    Args:
        image: An image of height, width and channels.
        seed: The seed of the draws.

    Returns:
        The image, mirrored or not.
    """
    return _called("flip", image, axis="left_right", probability=0.5, seed=seed_of(seed))


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Turns every other image upside down, by chance.

    Args:
        image: An image of height, width and channels.
        seed: The seed of the draws.

    Returns:
        The image, turned or not.
    """
    return _called("flip", image, axis="up_down", probability=0.5, seed=seed_of(seed))


def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """Removes the colours of ``uint8`` pixels.

    Args:
        images: An image of height, width and three channels.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The image with one channel.
    """
    return _called("rgb_to_grayscale", images, channels=1)


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Repeats the only channel three times.

    Args:
        images: An image of height, width and one channel.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The image with three equal channels.
    """
    return ops.concat([images, images, images], -1)


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """Converts between ``uint8`` pixels and ``float32`` pixels from 0 to 1.

    Args:
        image: An image of either dtype.
        dtype: The dtype of the result.
        saturate: Whether values beyond the range become the nearest in it.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The converted image.

    Raises:
        InvalidArgumentError: One of the dtypes is another.
    """
    tensor, wanted = convert_to_tensor(image), as_dtype(dtype)
    if tensor.dtype == wanted:
        return tensor
    if (tensor.dtype, wanted) == (uint8, float32):
        return tensor.cast(float32) * (1 / 255)
    if (tensor.dtype, wanted) == (float32, uint8):
        # TensorFlow scales by one more than the largest value, less the smallest step, and rounds down.
        return (tensor * 255.5).cast(uint8, saturate=saturate)
    raise InvalidArgumentError(f"convert_image_dtype: expected uint8 and float32, found {tensor.dtype.name} to {wanted.name}")


def per_image_standardization(image: Any) -> Tensor:
    """Shifts and scales the pixels of an image to mean 0 and variance 1.

    Args:
        image: An image of height, width and channels.

    Returns:
        The image as ``float32``.
    """
    pixels = convert_to_tensor(image).cast(float32)
    count = ops.shape(pixels.reshape(-1))[0].cast(float32)
    centred = pixels - pixels.mean()
    deviation = ops.sqrt((centred * centred).mean())
    return centred / ops.maximum(deviation, 1.0 / ops.sqrt(count))


def adjust_brightness(image: Any, delta: float) -> Tensor:
    """Adds a number to the pixels of a ``float32`` image.

    Args:
        image: An image of ``float32`` from 0 to 1.
        delta: The number.

    Returns:
        The changed image.
    """
    return _float(image, "adjust_brightness") + float(delta)


def adjust_contrast(images: Any, contrast_factor: float) -> Tensor:
    """Scales the distance of each pixel from the mean of its channel.

    Args:
        images: An image of ``float32`` from 0 to 1.
        contrast_factor: The factor.

    Returns:
        The changed image.
    """
    pixels = _float(images, "adjust_contrast")
    mean = pixels.mean(axis=(0, 1), keepdims=True)
    return (pixels - mean) * float(contrast_factor) + mean


def transpose(image: Any, name: str | None = None) -> Tensor:
    """Exchanges the rows and the columns of an image.

    Args:
        image: An image of height, width and channels.
        name: Accepted as in TensorFlow; has no effect.

    Returns:
        The new image.
    """
    return convert_to_tensor(image).transpose(1, 0, 2)


def _called(operation: str, argument: Any, **parameters: Any) -> Tensor:
    made: Tensor = called_native(operation, argument, **parameters)
    return made


def _float(image: Any, function: str) -> Tensor:
    tensor = convert_to_tensor(image)
    if tensor.dtype != float32:
        raise InvalidArgumentError(f"{function}: expected float32, found {tensor.dtype.name}: use convert_image_dtype first")
    return tensor
