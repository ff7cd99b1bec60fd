"""The datasets of the files of a saved dataset, as the reader function of ``Dataset.load`` is given them.

No element is a dataset here: elements are paths, and the functions of ``interleave`` and ``flat_map`` are called with the dataset of a path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._captures import check_innermost
from ._dataset import Dataset
from ._millstream import Graph
from ._tensor import convert_to_tensor

__all__ = ["FileDatasets", "file_datasets"]


class FileDatasets(Dataset):
    """A dataset of the paths of files, which stand for the datasets of their elements."""

    described: tuple[Any, ...]

    def _made(self, graph: Graph, options: Any) -> Dataset:
        made = FileDatasets(graph, options=options)
        made.described = self.described
        return made

    def _of(self, path: Any) -> Dataset:
        tensor = convert_to_tensor(path)
        assert tensor._scope is not None
        return Dataset(check_innermost(tensor._scope).map_expr(tensor._expr).then("elements", spec=self.described))

    def interleave(self, map_func: Callable[..., Dataset], *args: Any, **kwargs: Any) -> Dataset:
        """Yields the elements of the datasets, several in turn.

        Args:
            map_func: A function of the dataset of a file.
            *args: The arguments of ``Dataset.interleave``.
            **kwargs: The arguments of ``Dataset.interleave``.

        Returns:
            The dataset of the elements.
        """
        return Dataset(self._graph).interleave(lambda path: map_func(self._of(path)), *args, **kwargs)

    def flat_map(self, map_func: Callable[..., Dataset], name: str | None = None) -> Dataset:
        """Yields the elements of the datasets, one after the other.

        Args:
            map_func: A function of the dataset of a file.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The dataset of the elements.
        """
        return Dataset(self._graph).flat_map(lambda path: map_func(self._of(path)))


def file_datasets(paths: Dataset, described: tuple[Any, ...]) -> FileDatasets:
    """Returns the datasets of files.

    Args:
        paths: The paths of the files.
        described: The spec of the elements of the files, as plain tuples.
    """
    made = FileDatasets(paths._graph)
    made.described = described
    return made
