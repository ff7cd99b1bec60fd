"""Windows of elements, as the functions of ``Dataset.window`` are given them."""

from __future__ import annotations

from typing import Any

from ._dataset import Dataset

__all__ = ["Window"]


class Window(Dataset):
    """A window of elements within the function that is called with it."""

    def parts(self) -> list[Window]:
        """A window for each component of its tuples."""
        return [self[index] for index, _ in enumerate(self.element_spec)]

    def __getitem__(self, component: Any) -> Window:
        spec = self.element_spec
        if isinstance(spec, dict):
            return Window(self.map(lambda element: element[component])._graph)
        return Window(self.map(lambda *element: element[component])._graph)
