"""The windows that functions of ``Dataset.window`` receive."""

from __future__ import annotations

from typing import Any

from ._dataset import Dataset

__all__ = ["Window"]


class Window(Dataset):
    """A window of elements, inside the function that receives the window."""

    def parts(self) -> list[Window]:
        """Returns a window for each component of the tuples."""
        return [self[index] for index, _ in enumerate(self.element_spec)]

    def __getitem__(self, component: Any) -> Window:
        spec = self.element_spec
        if isinstance(spec, dict):
            return Window(self.map(lambda element: element[component])._graph)
        return Window(self.map(lambda *element: element[component])._graph)
