"""The function that creates a mixture: checks its components, and creates loaders for the components that are datasets.

The module does not know the order of batches, or positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._dataset import Dataset
from ._loader import SAMPLE_ARGUMENTS, DataLoader
from ._mix_plan import FIRST, MixturePlan
from ._mixture import Mixture
from ._wrap import wrap
from .errors import InvalidArgumentError

__all__ = ["mix"]


def mix(
    components: Any,
    weights: Any = None,
    *,
    seed: int = 0,
    stop: str = FIRST,
    with_names: bool = False,
    **arguments: Any,
) -> Mixture:
    """Mixes several loaders or datasets by weight: each step yields one batch of one component.

    The component of a step depends only on ``seed``, the epoch, the step and the weights. All trainers with the same arguments therefore draw the
    same component in each step, on any number of trainers.

    Args:
        components: A dict of loaders or datasets by name, or a list, whose names are ``"0"``, ``"1"`` and so on. A component is an
            ``ms.DataLoader`` that has delivered nothing, or a dataset that the function passes to ``ms.DataLoader`` with ``arguments``.
        weights: The weights of the components: a dict by name, or a list in the same order. Weights need not add up to 1. The default is equal
            weights.
        seed: The seed of the draws, and of the loaders that the function creates. It must be equal on all trainers.
        stop: The end of an epoch, in the words of ``datasets.interleave_datasets``. With ``"first_exhausted"``, the epoch ends when a drawn
            component has no batch left. With ``"all_exhausted_without_replacement"``, other components replace an exhausted one until all are
            exhausted. With ``"never"``, an exhausted component begins its next epoch, so the mixture has no end.
        with_names: Whether the mixture yields pairs of a component's name and a batch, instead of batches.
        **arguments: Arguments of ``ms.DataLoader`` for the components that are datasets, for example ``service``, ``batch_size`` or ``output``.
            Arguments for samples, such as ``batch_size``, are for the components that are no ``ms.Dataset``.

    Returns:
        The mixture, which is used like an ``ms.DataLoader``.

    Raises:
        InvalidArgumentError: A component is a mixture, is used twice or was already read; or weights, names or arguments do not suit.

    Example:
        >>> web = ms.DataLoader(range(100), batch_size=10, output="numpy")
        >>> code = ms.DataLoader(range(100, 120), batch_size=10, output="numpy")
        >>> mixture = ms.mix({"web": web, "code": code}, weights={"web": 3, "code": 1}, seed=4, with_names=True)
        >>> [name for name, batch in mixture]
        ['web', 'web', 'code', 'web', 'code']
    """
    if not isinstance(components, Mapping):
        components = {str(number): component for number, component in enumerate(components)}
    if not components or not all(isinstance(name, str) for name in components):
        raise InvalidArgumentError(f"expected a dict of components by name, or a list, found the names {list(components)}")
    if arguments and all(isinstance(component, DataLoader) for component in components.values()):
        raise InvalidArgumentError(f"{', '.join(arguments)}: no effect, because all components are loaders. Pass the arguments to the loaders")
    plan = MixturePlan.of(list(components), weights, seed, stop)
    loaders: dict[str, DataLoader] = {}
    has_samples = not all(isinstance(component, (DataLoader, Dataset)) for component in components.values())
    for name, component in components.items():
        # The elements of an `ms.Dataset` are batches. If all components are, the loader refuses the arguments.
        left_out = SAMPLE_ARGUMENTS if has_samples and isinstance(component, Dataset) else ()
        own = {key: value for key, value in arguments.items() if key not in left_out}
        # The mixture's seed does not decide the order of a dataset that `ms.service.distribute` reads exactly once.
        is_distributed = isinstance(component, Dataset) and component._distribution is not None
        loaders[name] = _loader_of(name, component, own if is_distributed else {"seed": seed, **own})
        if sum(loader is loaders[name] for loader in loaders.values()) > 1:
            raise InvalidArgumentError(f"component {name!r} is a loader that another component has, too: create one loader for each component")
    return Mixture(loaders, plan, with_names=with_names)


def _loader_of(name: str, component: Any, arguments: dict[str, Any]) -> DataLoader:
    """Returns the loader of a component."""
    if isinstance(component, Mixture):
        raise InvalidArgumentError(f"component {name!r} is a mixture: pass its components to one ms.mix, with their weights multiplied")
    if not isinstance(component, DataLoader):
        is_loader = all(hasattr(component, attribute) for attribute in ("dataset", "collate_fn", "batch_sampler"))
        return wrap(component, **arguments) if is_loader else DataLoader(component, **arguments)
    if component.epoch or component.step:
        raise InvalidArgumentError(
            f"component {name!r} has delivered batches (epoch {component.epoch}, step {component.step}): pass a new loader, and restore the mixture "
            "with load_state_dict"
        )
    return component
