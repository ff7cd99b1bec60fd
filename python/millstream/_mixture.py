"""The mixture of several loaders: each step yields a batch of one component, which the plan of the mixture draws.

A mixture drives its loaders by their public methods only. It does not know the processes that compute batches, or the contents of batches.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import operator
import types
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from . import _html
from ._iteration import END, LoaderIterator
from ._lineage import Lineage
from ._loader import DataLoader
from ._mix_plan import FIRST, NEVER, MixturePlan
from ._mixture_iteration import MixtureIterator, MixtureStub
from ._positions import moved
from ._ranks import Rank
from ._state_checksum import check_complete, with_checksum
from ._steps import checked_skip
from .errors import DataLossError, FailedPreconditionError, InvalidArgumentError, MillstreamError, OutOfRangeError

__all__ = ["Mixture"]

#: The version of the states that a mixture writes and reads.
STATE_VERSION = 1

#: The maximum number of unused batches that a state can leave out across the end of a component's epoch.
_BEHIND_MAX = 64


class Mixture:
    """A mixture of several loaders, which is the loader of a training loop. ``ms.mix`` creates mixtures.

    Each step yields one batch of one component. The component depends only on the seed, the epoch, the step and the weights. All trainers
    therefore draw the same component in the same step, and a restored mixture repeats no draw.

    A mixture drives its loaders. Do not iterate over a loader that is part of a mixture. Only one iterator of a mixture is valid: a new iterator
    ends the validity of the earlier one.

    Epochs: with ``stop="never"`` the mixture has one endless epoch. A new iterator continues, ``set_epoch`` has no effect, and each loader counts
    its own epochs. With the other rules, epoch ``n`` of the mixture begins epoch ``n`` of each loader.

    Example:
        >>> mixture = ms.mix({"web": range(100), "code": range(9)}, weights={"web": 3, "code": 1}, batch_size=10, output="numpy")
        >>> [mixture.component(step) for step in range(4)]
        ['code', 'web', 'web', 'web']
    """

    def __init__(self, loaders: Mapping[str, DataLoader], plan: MixturePlan, *, with_names: bool = False) -> None:
        self._loaders, self._plan = dict(loaders), plan
        #: The plan without changes of weights, which a state must have, too.
        self._initial = plan
        self.with_names = with_names
        values = list(self._loaders.values())
        self.batch_size = _common([loader.batch_size for loader in values])
        self.drop_last, self.in_order = any(loader.drop_last for loader in values), all(loader.in_order for loader in values)
        self.num_workers, self.timeout = sum(loader.num_workers for loader in values), max(loader.timeout for loader in values)
        self.device, self.collate_fn = _common([loader.device for loader in values]), _common([loader.collate_fn for loader in values])
        self.prefetch_factor = _common([loader.prefetch_factor for loader in values])
        self.pin_memory, self.persistent_workers = False, all(loader.persistent_workers for loader in values)
        self.worker_init_fn = self.multiprocessing_context = self.generator = None
        self.name: str | None = None
        for name, loader in loaders.items():
            loader.name = loader.name or name
        #: Always ``None``, so that libraries use the attribute ``sampler``.
        self.batch_sampler = None
        self._epoch = self._step = 0
        self._is_finished = self._has_begun = False
        self._wanted: int | None = None
        self._exhausted: dict[str, int] = {}
        #: The iterators of the loaders in the present epoch. `_turn` is the number of the only valid iterator of the mixture.
        self._readings: dict[str, LoaderIterator] = {}
        self._turn = 0
        self._is_begun_ahead = False
        #: The iterator that reads the present epoch, as long as the program holds it.
        self._running: Callable[[], MixtureIterator | None] | None = None
        #: The step after the last skipped batch of the epoch; 0 if no batch was skipped.
        self._skipped_to = 0
        #: For each loader of an endless mixture: its last finished epoch, and the states before the latest batches up to the end of this epoch,
        #: the latest state first.
        self._earlier: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self._latest: str | None = None
        #: The latest result of `_walked`, with the values on which it depends.
        self._known: tuple[Any, tuple[int, dict[str, int]]] | None = None

    # Properties of the mixture.

    @property
    def components(self) -> Mapping[str, DataLoader]:
        """The loaders by name, which programs may look at, but not iterate over."""
        return types.MappingProxyType(self._loaders)

    @property
    def sampler(self) -> MixtureStub:
        """The object whose ``set_epoch`` libraries call."""
        return MixtureStub(self)

    @property
    def dataset(self) -> MixtureStub:
        """The object whose ``set_epoch``, ``state_dict`` and ``load_state_dict`` libraries call."""
        return MixtureStub(self)

    @property
    def epoch(self) -> int:
        """The number of the present epoch. Before the first batch, and after ``load_state_dict``, the epoch that the next iterator reads."""
        return self._epoch + (self._is_finished and not self._has_begun)

    @property
    def step(self) -> int:
        """The number of batches of the epoch that were delivered to this trainer."""
        return 0 if self._is_finished and not self._has_begun else self._step

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the next step, by name."""
        return self._plan.weights_at(*self._next_position())

    @property
    def weights_history(self) -> list[tuple[int, int, dict[str, float]]]:
        """The weights from the start, and all changes: the epoch, the step of the epoch, and the weights from this step on."""
        return [(one.epoch, one.step, dict(zip(self._plan.names, one.weights, strict=True))) for one in self._plan.changes]

    @property
    def rank(self) -> Rank:
        """The rank of this trainer, from the loader with the most trainers."""
        return max((loader.rank for loader in self._loaders.values()), key=lambda rank: rank.dp_size)

    @property
    def total_batch_size(self) -> int | None:
        """The number of samples of all trainers in a step; ``None`` if the number is unknown or differs between components."""
        sizes = {loader.total_batch_size for loader in self._loaders.values()}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def last_batch_valid_count(self) -> int | None:
        """The number of samples at the start of the latest batch that are not repeated to fill the batch; ``None`` if unknown."""
        return None if self._latest is None else self._loaders[self._latest].last_batch_valid_count

    def __len__(self) -> int:
        """Returns the number of batches of the present epoch. After the end of an epoch, the number of the next epoch.

        The number is equal on all trainers if the lengths of all components are.

        Raises:
            TypeError: The mixture has no end, or the number of batches of a component is unknown.
        """
        if self._plan.stop == NEVER:
            raise TypeError("a mixture with stop='never' has no end: set a number of steps in the trainer")
        return self._walked(self._next_position()[0])[0]

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        shares = ", ".join(f"{name}: {weight:g}" for name, weight in self.weights.items())
        return f"<millstream.Mixture of {shares}, stop={self._plan.stop!r}, epoch {self.epoch}, step {self.step}>"

    def _repr_html_(self) -> str:
        weights = self.weights
        rows = [(name, f"{weights[name]:g}", loader.step, loader.stats()) for name, loader in self._loaders.items()]
        position = _html.table([("epoch", self.epoch), ("step", self.step), ("stop", self._plan.stop)])
        return _html.block("millstream.Mixture", position, _html.table(rows, ("component", "weight", "step", "state")))

    # Batches.

    def __iter__(self) -> MixtureIterator:
        return MixtureIterator(self)

    async def __aiter__(self) -> AsyncIterator[Any]:
        batches, loop = iter(self), asyncio.get_running_loop()
        try:
            while (batch := await loop.run_in_executor(None, next, batches, END)) is not END:
                yield batch
        finally:
            # Closing ends the wait of the thread that requests the next batch.
            batches.close()

    def start_prefetch(self) -> None:
        """Starts the next epoch of all components of positive weight in the background, before the program requests the first batch."""
        if not self._is_begun_ahead:
            self._begin()
            self._is_begun_ahead = True
        for name, weight in self.weights.items():
            if weight and name not in self._readings and self._is_readable(name):
                self._loaders[name].start_prefetch()

    def _begun(self) -> int:
        """Starts or takes over the epoch of a new iterator. Returns the number of the iterator."""
        if not self._is_begun_ahead:
            self._begin()
        self._is_begun_ahead = False
        return self._turn

    def _begin(self) -> None:
        if self._plan.stop != NEVER:
            if self._wanted is not None:
                self._restart(self._wanted)
            elif self._is_finished or self._has_begun:
                self._restart(self._epoch + 1)
        self._has_begun = True
        self._turn += 1

    def _restart(self, epoch: int) -> None:
        """Moves all loaders to the first batch of an epoch."""
        self._close_readings()
        for loader in self._loaders.values():
            # A loader in the middle of the epoch starts the epoch again only if it has had another epoch.
            loader.set_epoch(epoch + 1)
            loader.set_epoch(epoch)
        self._epoch, self._step, self._wanted, self._skipped_to = epoch, 0, None, 0
        self._is_finished = self._has_begun = False
        self._exhausted = {}

    def _delivered(self) -> tuple[str, Any]:
        """Returns the component of the next step and its batch. Raises ``StopIteration`` at the end of the epoch."""
        while not self._is_finished and not (self._exhausted and self._plan.stop == FIRST):
            name = self._plan.drawn(self._epoch, self._step, self._exhausted)
            if name is None:
                break
            try:
                batch = self._taken(name)
            except DataLossError:
                # The loader has reported the end of its epoch by this error.
                self._end_of(name)
                raise
            if batch is not END:
                self._step, self._latest = self._step + 1, name
                return name, batch
        self._is_finished = True
        self._close_readings()
        raise StopIteration

    def _taken(self, name: str) -> Any:
        """Returns the next batch of a component, or ``END`` if its epoch is over. A component of an endless mixture begins its next epoch."""
        attempts = 2 if self._plan.stop == NEVER else 1
        for _ in range(attempts):
            if not self._is_readable(name):
                break
            if name not in self._readings:
                self._readings[name] = iter(self._loaders[name])
            batch = next(self._readings[name], END)
            if batch is not END:
                return batch
            self._end_of(name)
        if self._plan.stop == NEVER:
            raise FailedPreconditionError(
                f"component {name!r} has no batch in a whole epoch, so the mixture cannot continue: set its weight to 0, or give each trainer batches"
            )
        self._exhausted.setdefault(name, self._step)
        return END

    def _is_readable(self, name: str) -> bool:
        """Returns whether the loader is in the epoch of the mixture. A loader that was restored after its last batch is in the next epoch."""
        return self._plan.stop == NEVER or (name not in self._exhausted and self._loaders[name].epoch == self._epoch)

    def _end_of(self, name: str) -> None:
        """Notes the end of a loader's epoch."""
        if self._plan.stop != NEVER:
            self._exhausted.setdefault(name, self._step)
            return
        self._readings.pop(name, None)
        loader = self._loaders[name]
        states: list[dict[str, Any]] = []
        try:
            for behind in range(1, min(loader.step, _BEHIND_MAX) + 1):
                states.append(loader.state_dict(behind=behind))
            states += self._earlier.get(name, (0, []))[1]
        except InvalidArgumentError:
            # The loader does not deliver batches in order, or was restored in this epoch and does not know earlier positions.
            pass
        self._earlier[name] = loader.epoch, states[:_BEHIND_MAX]

    # The plan.

    def set_mixture(self, weights: Any, at_step: int | None = None, *, epoch: int | None = None) -> None:
        """Changes the weights from a step on. The change is a part of the state, so a restored mixture repeats it.

        Call the method with the same arguments on all trainers. Later changes that were set before remain. A change at a step that the epoch
        does not reach holds from the start of the next epoch. Repeating a recorded change has no effect, so that a program may set its changes
        after ``load_state_dict``, too. A mixture has at most 64 changes.

        Args:
            weights: The new weights: a dict by name, or a list in the order of the components. A weight of 0 pauses a component.
            at_step: The first step with the new weights. Steps count the batches of one trainer from the start of the epoch, which is the start
                of the training with ``stop="never"``. The default is the next step.
            epoch: The epoch of ``at_step``. The default is the epoch of the next step.

        Raises:
            InvalidArgumentError: The step was already delivered, the epoch does not exist, the weights do not suit the components, or there are too
                many changes.

        Example:
            >>> mixture = ms.mix({"web": range(100), "code": range(9)}, weights=[1, 0], batch_size=1, output="numpy", stop="never")
            >>> mixture.set_mixture({"web": 0, "code": 1}, at_step=2)
            >>> [name for name, batch in zip(map(mixture.component, range(4)), mixture)]
            ['web', 'web', 'code', 'code']
        """
        present, step = self._next_position()
        epoch = present if epoch is None else epoch
        at_step = operator.index((step if epoch == present else 0) if at_step is None else at_step)
        self._check_epoch(epoch)
        plan = self._plan.changed(list(self._loaders), weights, operator.index(epoch), at_step)
        if plan == self._plan:
            return
        if (epoch, at_step) < (present, step) or at_step < 0:
            raise InvalidArgumentError(
                f"weights from step {at_step} of epoch {epoch}: the next step is {step} of epoch {present}, and delivered steps keep their weights"
            )
        self._plan = plan

    def skip(self, batches: int = 1) -> int:
        """Skips the next batches of the mixture, whatever their components. See ``DataLoader.skip``.

        The method reads and drops the batches, and blocks until they arrive. Skipped batches count as delivered. Skipping ends with the epoch.

        Args:
            batches: The number of batches, at most 4096 in one call.

        Returns:
            The number of skipped batches, which is smaller than ``batches`` only if the epoch has fewer batches left.

        Raises:
            InvalidArgumentError: ``batches`` is negative or too large.
        """
        if not (count := checked_skip(batches)):
            return 0
        running = None if self._running is None else self._running()
        if not self._is_begun_ahead and (running is None or not running.is_reading()):
            self._begin()
            self._is_begun_ahead = True
        for skipped in range(count):
            try:
                self._delivered()
            except StopIteration:
                return skipped
            self._skipped_to = self._step
        return count

    def lineage(self, step: int, *, epoch: int | None = None) -> Lineage:
        """Returns the component of a step, and the records of its dataset from which the batch was made. See ``DataLoader.lineage``.

        With ``stop="never"``, all epochs of a component before and after the present one are expected to have the same length.

        Args:
            step: The number of the step in the epoch, delivered or not.
            epoch: The number of the epoch. The default is the present epoch.

        Returns:
            The records of the batch, with the name, epoch and step of the component.

        Raises:
            OutOfRangeError: The epoch has no such step.
            InvalidArgumentError: The position of the step is unknown. The message says what to do.
            FailedPreconditionError: The component reads a stream, or the step depends on an unknown length.
        """
        epoch = self.epoch if epoch is None else epoch
        name = self.component(step, epoch=epoch)
        try:
            own_epoch, own_step = self._position_of(name, epoch, step)
            found = self._loaders[name].lineage(own_step, epoch=own_epoch)
        except MillstreamError as error:
            error.add_note(f"for component {name!r} in step {step} of epoch {epoch}: component({step}) names the component without records")
            raise
        return dataclasses.replace(found, epoch=epoch, step=step, component=name, component_epoch=own_epoch, component_step=own_step)

    def _position_of(self, name: str, epoch: int, step: int) -> tuple[int, int]:
        """Returns the epoch and the step of a component whose batch is that of a step of the mixture."""
        if self._plan.stop != NEVER:
            return epoch, self._plan.counted(name, epoch, range(step), self._exhausted_at(epoch, step))
        loader = self._loaders[name]
        later = self._plan.counted(name, 0, range(self._step, step), {}) - self._plan.counted(name, 0, range(step, self._step), {})
        try:
            return moved(loader._loading.steps, loader.epoch, loader.step + later)
        except TypeError as error:
            if loader.step + later >= 0:
                return loader.epoch, loader.step + later
            raise FailedPreconditionError(f"the step belongs to an earlier epoch of component {name!r}, whose length is unknown: {error}") from error

    def component(self, step: int, *, epoch: int | None = None) -> str:
        """Returns the name of the component of a step, delivered or not, without reading data.

        Args:
            step: The number of the step in the epoch.
            epoch: The number of the epoch. The default is the present epoch.

        Returns:
            The name of the component.

        Raises:
            OutOfRangeError: The epoch has no such step.
            InvalidArgumentError: The mixture is endless, and the epoch is not 0.
            FailedPreconditionError: The rule is ``"all_exhausted_without_replacement"``, the step was not delivered, and the number of batches of a
                component is unknown.
        """
        epoch = self.epoch if epoch is None else epoch
        if step < 0:
            raise OutOfRangeError(f"step {step}: steps begin at 0")
        self._check_epoch(epoch)
        name = self._plan.drawn(epoch, step, self._exhausted_at(epoch, step))
        assert name is not None, "weights are not all 0, and a step of an epoch has a component"
        return name

    def _exhausted_at(self, epoch: int, step: int) -> Mapping[str, int]:
        """Returns the components that are exhausted in an epoch, as far as they decide the component of a step."""
        if self._plan.stop == NEVER:
            return {}
        is_delivered = epoch == self._epoch and step < self._step
        return self._exhausted if is_delivered else self._foreseen(epoch, step)

    def _check_epoch(self, epoch: int) -> None:
        if self._plan.stop == NEVER and epoch != 0:
            raise InvalidArgumentError(f"epoch {epoch}: a mixture with stop='never' has only the endless epoch 0")

    def _foreseen(self, epoch: int, step: int) -> dict[str, int]:
        """Returns the components that are exhausted in an epoch, for a step that was not delivered."""
        try:
            steps, exhausted = self._walked(epoch)
        except TypeError as error:
            if self._plan.stop == FIRST:
                # Before the end of such an epoch no component is exhausted.
                return {}
            raise FailedPreconditionError(f"step {step} of epoch {epoch} depends on a component of unknown length: {error}") from error
        if step >= steps:
            raise OutOfRangeError(f"step {step}: epoch {epoch} has {steps} steps")
        return exhausted

    def _walked(self, epoch: int) -> tuple[int, dict[str, int]]:
        """Returns the number of steps of an epoch and its exhausted components. Raises ``TypeError`` if a component's length is unknown."""
        key = epoch, self._plan, {name: len(loader) for name, loader in self._loaders.items()}
        if self._known is None or self._known[0] != key:
            self._known = key, self._plan.walked(epoch, key[2])
        return self._known[1]

    def _next_position(self) -> tuple[int, int]:
        """Returns the epoch and the step of the next batch."""
        if self._wanted is not None:
            return self._wanted, 0
        return (self._epoch + 1, 0) if self._is_finished else (self._epoch, self._step)

    # The position.

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that the next iterator reads. Has no effect on an endless mixture, so that libraries may call the method.

        Args:
            epoch: The number of the epoch, from 0.
        """
        if self._plan.stop == NEVER:
            return
        if self._has_begun and not self._is_finished and epoch == self._epoch:
            # A running iterator continues; the next one begins the epoch again.
            self._wanted = None if self._is_begun_ahead else epoch
        elif self._has_begun or self._is_finished or epoch != self._epoch:
            self._restart(epoch)
            self._turn += 1

    def state_dict(self, *, behind: int = 0) -> dict[str, Any]:
        """Returns the position after the batch that was delivered last: the plan, and the state of each component.

        If the states of all components are the same on all trainers, the state of the mixture is, too.

        Args:
            behind: The number of delivered batches that the trainer has prefetched and not used.

        Returns:
            A dict that JSON can represent: about 150 bytes, 200 bytes for each component, and 50 bytes for each change of weights.

        Raises:
            InvalidArgumentError: ``behind`` is larger than the number of batches that were delivered in order, or a component has begun its next
                epoch more than 64 batches ago.
        """
        step = self._step - behind
        if step < 0:
            raise InvalidArgumentError(f"behind={behind}: only {self._step} batches of the epoch were delivered")
        if behind and step < self._skipped_to:
            raise InvalidArgumentError(
                f"behind={behind} reaches back to step {step}, and the batches up to step {self._skipped_to} were skipped: use the prefetched batches "
                "before skip(), or save the state before it"
            )
        unused = collections.Counter(self._plan.drawn(self._epoch, one, self._exhausted) for one in range(step, self._step))
        state = {
            "version": STATE_VERSION,
            "epoch": self._epoch,
            "step": step,
            "finished": self._is_finished and not behind,
            **self._plan.state(),
            "exhausted": {name: at for name, at in self._exhausted.items() if at < step or not behind},
            "components": {name: self._state_of(name, unused[name]) for name in self._plan.names},
        }
        return with_checksum(state)

    def _state_of(self, name: str, behind: int) -> dict[str, Any]:
        loader, (ended, earlier) = self._loaders[name], self._earlier.get(name, (-1, []))
        if behind <= loader.step or name not in self._earlier:
            return loader.state_dict(behind=behind)
        # After an interruption the loader may still be at the end of its last epoch.
        before = behind if ended == loader.epoch else behind - loader.step
        if before > len(earlier):
            raise InvalidArgumentError(f"behind: component {name!r} has begun another epoch, and only {len(earlier)} positions before that are known")
        return earlier[before - 1]

    def load_state_dict(self, state_dict: dict[str, Any], *, strict: bool = True) -> None:
        """Sets the position of the mixture and of its loaders to a saved state, with all changes of weights.

        Args:
            state_dict: A state that ``state_dict`` or ``ms.joined_states`` returned.
            strict: Whether to refuse a state of a mixture with another seed, rule or initial weights, and states that the loaders refuse. With
                ``False``, the seed, the rule and the weights of the state hold.

        Raises:
            InvalidArgumentError: The state has another version, other components or other values. The message contains both values. Or entries of
                the state were lost or changed after it was saved.
            FailedPreconditionError: The order of a component's batches differs between runs.
        """
        if state_dict.get("version") != STATE_VERSION or "components" not in state_dict:
            found = f"version {state_dict.get('version')!r}" if "components" in state_dict else "a state without components"
            raise InvalidArgumentError(f"expected a state of a mixture of version {STATE_VERSION}, found {found}: load a state of ms.mix")
        check_complete(state_dict)
        plan = MixturePlan.from_state(state_dict, state_dict["components"])
        self._check(plan, strict)
        self._close_readings()
        for name, loader in self._loaders.items():
            state = state_dict["components"][name]
            loader.load_state_dict(state, strict=strict)
            if strict and not state["finished"] and loader.step != _step_of(state):
                raise InvalidArgumentError(
                    f"component {name!r} is at step {_step_of(state)} in the state, and at step {loader.step} here: use the same number of "
                    "samples of all trainers in a step"
                )
        self._plan, self._wanted = plan, None
        self._epoch, self._step, self._is_finished = int(state_dict["epoch"]), int(state_dict["step"]), bool(state_dict["finished"])
        self._exhausted = {str(name): int(at) for name, at in state_dict.get("exhausted", {}).items()}
        self._has_begun = self._is_begun_ahead = False
        self._earlier, self._latest, self._skipped_to = {}, None, 0
        self._turn += 1

    def _check(self, plan: MixturePlan, strict: bool) -> None:
        """Raises ``InvalidArgumentError`` if the plan of a state does not suit this mixture."""
        mine = self._initial
        pairs: list[tuple[str, Any, Any]] = [("components", list(plan.names), list(mine.names))]
        if strict:
            theirs, ours = (dict(zip(one.names, one.changes[0].weights, strict=True)) for one in (plan, mine))
            pairs += [("seed", plan.seed, mine.seed), ("stop", plan.stop, mine.stop), ("weights", theirs, ours)]
        for name, theirs, ours in pairs:
            if theirs != ours:
                advice = "pass the weights of the state, and change them with set_mixture" if name == "weights" else f"pass the {name} of the state"
                raise InvalidArgumentError(f"the state has {name} {theirs!r}, this mixture {ours!r}: {advice}")

    get_state = state_dict
    set_state = load_state_dict

    # Measurements and the end.

    def stats(self) -> dict[str, Any]:
        """Returns measurements of the present epoch.

        Returns:
            A dict with the epoch, the step, the weights of the next step, and the measurements of each loader under its name.
        """
        measured = {name: loader.stats() for name, loader in self._loaders.items()}
        return {"epoch": self.epoch, "step": self.step, "weights": self.weights, "components": measured}

    def close(self) -> None:
        """Ends the workers of the loaders. A closed mixture can be iterated over again."""
        self._close_readings()
        for loader in self._loaders.values():
            loader.close()
        self._is_begun_ahead = False
        self._turn += 1

    def _close_readings(self) -> None:
        """Ends the iterators of the loaders. The loaders of an endless mixture keep their positions."""
        started = [name for name, loader in self._loaders.items() if name in self._readings or self._is_begun_ahead]
        for reading in self._readings.values():
            reading.close()
        self._readings = {}
        for name in started if self._plan.stop == NEVER else []:
            _hold(self._loaders[name])

    def __enter__(self) -> Mixture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        # The copy has the same position, but its own iterators.
        return self.__dict__ | {"_readings": {}, "_has_begun": False, "_is_begun_ahead": False, "_running": None}


def _common(values: Sequence[Any]) -> Any:
    """Returns the value that all components have; ``None`` if they differ."""
    return values[0] if all(value == values[0] for value in values) else None


def _step_of(state: Mapping[str, Any]) -> int:
    """Returns the number of batches that a loader had delivered in a state."""
    return int(state["step"]) + sum(int(stop) - int(start) for start, stop in state["ahead"])


def _hold(loader: DataLoader) -> None:
    """Lets the next iterator of a loader continue the epoch."""
    state = loader.state_dict()
    try:
        loader.load_state_dict(state)
    except FailedPreconditionError:
        # The order of the batches differs between runs, so the loader continues by the number of batches.
        loader.load_state_dict(state, strict=False)
