"""Datasets: chains of operations that are executed natively, here or on the workers of a service.

The methods are those of ``tf.data.Dataset``. What stands before ``distribute`` runs on workers, what stands behind it
runs here.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import os
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _debugging, _tensor
from ._arguments import path_of, seed_of, whole
from ._composites import Ragged, Sparse
from ._dtypes import as_dtype, int64
from ._groups import GroupMethods
from ._images import ImageMethods
from ._millstream import Elements, Graph
from ._numpy_iterator import NumpyIterator
from ._options import Options, optioned
from ._output import taker
from ._padding import shapes_of, values_of
from ._parsing import ParsingMethods
from ._saving import SavingMethods, packing_of
from ._spec import dressed, plain
from ._statistics import recorded
from ._structure import constants
from ._tensor import Tensor, applied, called, scope_of
from .errors import InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from ._code import Limits
    from .service import Reading

__all__ = ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "Dataset"]

AUTOTUNE = -1
INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2

_END = object()


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _tuned(value: int | None) -> int:
    return 0 if value is None or value == AUTOTUNE else value


def _scheduled(graph: Graph, threads: int | None, deterministic: bool | None) -> Graph:
    """Returns a dataset whose last operation runs in threads, and keeps the order or does not."""
    if threads is None:
        return graph
    graph = graph.parallel(_tuned(threads))
    return graph if deterministic is None else graph.in_order(deterministic)


class Dataset(GroupMethods, ImageMethods, ParsingMethods, SavingMethods):
    """A pipeline: a source of elements and operations on them. Immutable: every method returns a new dataset.

    Iterating yields elements nested as ``element_spec`` says: numpy arrays and scalars, ``str`` and ``bytes``. Arrays are views of the memory
    that elements arrived in. They are writable, and valid as long as they are referenced. ``iter`` does nothing before the first element is
    requested. Several iterators may live at a time, and each is a pass of its own.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        reading: Reading | None = None,
        output: str = "numpy",
        options: Options | None = None,
        task_id: int | None = None,
        passes: Iterator[int] | None = None,
    ) -> None:
        self._graph = graph
        #: How a service is read directly; of a dataset that is nothing but that.
        self._reading = reading
        self._output = output
        #: The numbers of the passes to come. Datasets that share a reading share its job, of which each pass is read once.
        self._passes: Iterator[int] = reading.passes if reading is not None else passes or itertools.count()
        self._options = Options() if options is None else options
        #: The number of the task, once anybody has asked for it.
        self._task: list[int] = [] if task_id is None else [task_id]
        #: The number of elements, where the maker of the dataset knows more than the graph.
        self._known_count: int | None = None

    # Sources.

    @staticmethod
    def range(*args: int, output_type: Any = None, name: str | None = None) -> Dataset:
        """Yields integers, as Python's ``range`` does.

        Args:
            *args: A stop; a start and a stop; or a start, a stop and a step.
            output_type: The dtype of the numbers; ``int64`` by default.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(2, 10, 3)]
            [2, 5, 8]
        """
        if not 1 <= len(args) <= 3:
            raise ValueError(f"range takes a stop, a start and a stop, or a step as well, not {len(args)} numbers")
        if any(isinstance(arg, Tensor) for arg in args):
            raise UnimplementedError("a range of numbers that are computed: make it of a tensor of them, by from_tensor_slices")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        numbers = Dataset(Graph.source("range", start=start, stop=stop, step=step))
        return numbers if output_type is None else numbers.map(lambda x: x.cast(output_type))

    @staticmethod
    def counter(start: int = 0, step: int = 1, dtype: Any = int64, name: str | None = None) -> Dataset:
        """Yields integers without end.

        Args:
            start: The first number.
            step: The difference between two numbers.
            dtype: The dtype of the numbers; ``int64`` by default.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.counter(5, 2).take(3)]
            [5, 7, 9]
        """
        numbers = Dataset(Graph.source("counter", start=start, step=step))
        return numbers if as_dtype(dtype) == int64 else numbers.map(lambda x: x.cast(dtype))

    @staticmethod
    def random(
        seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None
    ) -> Dataset:
        """Yields random integers of 32 bits without end.

        Every pass draws other numbers if ``rerandomize_each_iteration`` is true, or if neither it nor a seed is given. With a seed alone,
        every pass repeats the first one, as upstream.

        Args:
            seed: The seed of the numbers.
            rerandomize_each_iteration: Whether passes differ.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.
        """
        rerandomize_each_iteration = _rerandomized(seed, rerandomize_each_iteration)
        return Dataset(_drawn(Graph.source("random", seed=_seed(seed, rerandomize_each_iteration)), rerandomize_each_iteration))

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Yields one element.

        Args:
            tensors: Arrays, nested in tuples and dicts: the element.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> next(iter(ms.Dataset.from_tensors({"a": [1, 2, 3]})))["a"].tolist()
            [1, 2, 3]
        """
        scope = scope_of(tensors)
        if scope is not None:
            return Dataset(applied(scope.graph, _tensor.stacked(tensors)))
        described, data = constants(tensors)
        return Dataset(Graph.tensors(described, data))

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Yields the slices of arrays along their leading dimension.

        Args:
            tensors: Arrays of one leading dimension, nested in tuples and dicts.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            TypeError: A ragged or sparse tensor is given.

        Example:
            >>> [(int(x), y) for x, y in ms.Dataset.from_tensor_slices(([1, 2], ["a", "b"]))]
            [(1, 'a'), (2, 'b')]
        """
        scope = scope_of(tensors)
        if scope is not None:
            return Dataset(applied(scope.graph, _tensor.stacked(tensors)).then("unbatch"))
        if isinstance(tensors, Ragged | Sparse):
            raise TypeError("ragged and sparse tensors have no slices here: use from_tensors, or a list of rows")
        described, data = constants(tensors)
        return Dataset(Graph.tensor_slices(described, data))

    @staticmethod
    def from_generator(
        generator: Callable[..., Iterable[Any]],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Sequence[Any] | None = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Yields the elements of a Python generator, which is called again for every pass.

        The generator runs where the pipeline does, which must be a Python process: here, or on workers of ``ms.local``. Workers run a copy of
        the generator and of what it refers to.

        Args:
            generator: A function that returns an iterable.
            output_types: Dtypes, nested as elements are; the older way of ``output_signature``.
            output_shapes: Shapes, nested as elements are.
            args: Arguments of the generator.
            output_signature: Specs, nested as elements are.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            TypeError: ``generator`` is not callable, or no argument states the types.

        Example:
            >>> squares = lambda: (x * x for x in range(3))
            >>> [int(x) for x in ms.Dataset.from_generator(squares, output_signature=ms.TensorSpec((), ms.int64))]
            [0, 1, 4]
        """
        from ._generator import generated

        return Dataset(generated(generator, output_types, output_shapes, args, output_signature))

    @staticmethod
    def list_files(
        file_pattern: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        shuffle: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Yields the paths that patterns match.

        Args:
            file_pattern: A glob pattern, or several: local, or of an object store.
            shuffle: Whether every pass shuffles the paths; true unless it is ``False``. Otherwise they are sorted.
            seed: The seed of the order.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            ValueError: No pattern is given.
        """
        listed = [file_pattern] if isinstance(file_pattern, str | os.PathLike) else file_pattern
        patterns = [path_of(pattern) for pattern in listed]
        if not patterns:
            raise ValueError("list_files needs a pattern")

        def files(pattern: str) -> Graph:
            return Graph.source("files", pattern=pattern, shuffle=shuffle is not False, seed=None if shuffle is False else seed_of(seed))

        graphs = [files(pattern) for pattern in patterns]
        return Dataset(graphs[0] if len(graphs) == 1 else Graph.joined(graphs, "concatenate"))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Yields tuples or dicts of one element of each dataset, until the shortest ends.

        Args:
            *args: Datasets; or one tuple or dict of datasets, which may be nested.
            datasets: The same as one argument.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> a, b = ms.Dataset.range(3), ms.Dataset.range(10, 20)
            >>> [(int(x), int(y)) for x, y in ms.Dataset.zip(a, b)]
            [(0, 10), (1, 11), (2, 12)]
        """
        given = args if datasets is None else datasets
        return Dataset(_zipped(given[0] if datasets is None and len(args) == 1 else given))

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Dataset],
        weights: Sequence[float] | None = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """Yields elements of datasets, drawn at random in proportion to weights.

        Every pass draws otherwise if ``rerandomize_each_iteration`` is true, or if neither it nor a seed is given. With a seed alone, every pass
        repeats the first one, as upstream.

        Args:
            datasets: The datasets, which have one element spec.
            weights: A weight for each dataset; equal by default. Datasets of weight 0 are left out.
            seed: The seed of the draws.
            stop_on_empty_dataset: Whether the end of one dataset ends all. Otherwise the others continue.
            rerandomize_each_iteration: Whether passes differ.

        Returns:
            The new dataset.

        Raises:
            ValueError: There are not as many weights as datasets.
        """
        rerandomize_each_iteration = _rerandomized(seed, rerandomize_each_iteration)
        if weights is not None and len(weights) != len(datasets):
            raise ValueError(f"{len(weights)} weights for {len(datasets)} datasets")
        shares = [1.0] * len(datasets) if weights is None else [float(weight) for weight in weights]
        drawn = [(share, dataset._graph) for share, dataset in zip(shares, datasets, strict=True) if share != 0]
        graph = Graph.joined(
            [graph for _, graph in drawn],
            "sample",
            weights=[share for share, _ in drawn],
            seed=_seed(seed, rerandomize_each_iteration),
            stop_on_empty=bool(stop_on_empty_dataset),
        )
        return Dataset(_drawn(graph, rerandomize_each_iteration))

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Yields elements of datasets in the order that another dataset states.

        Args:
            datasets: The datasets, which have one element spec.
            choice_dataset: A dataset of indices into ``datasets``.
            stop_on_empty_dataset: Whether the end of one dataset ends all. Otherwise choices of it are skipped.

        Returns:
            The new dataset.

        Example:
            >>> a, b = ms.Dataset.range(3), ms.Dataset.range(10, 13)
            >>> choices = ms.Dataset.from_tensor_slices([0, 1, 1])
            >>> [int(x) for x in ms.Dataset.choose_from_datasets([a, b], choices)]
            [0, 10, 11]
        """
        graphs = [dataset._graph for dataset in datasets]
        choices = choice_dataset if choice_dataset.element_spec.dtype == "int64" else choice_dataset.map(_as_int64)
        return Dataset(Graph.choose(choices._graph, graphs, stop_on_empty_dataset))

    # What is known.

    @property
    def element_spec(self) -> Any:
        """The specs of an element: ``TensorSpec`` and others, nested as the element is."""
        return dressed(self._graph.spec)

    def cardinality(self) -> int:
        """Counts the elements without computing them.

        Returns:
            The number of elements, ``ms.INFINITE_CARDINALITY`` or ``ms.UNKNOWN_CARDINALITY``.

        Example:
            >>> ms.Dataset.range(10).batch(3).cardinality()
            4
        """
        return self._graph.cardinality if self._known_count is None else self._known_count

    def __len__(self) -> int:
        count = self.cardinality()
        if count < 0:
            known = "has no end" if count == INFINITE_CARDINALITY else "does not know how many elements it has"
            raise TypeError(f"the dataset {known}, so it has no len()")
        return count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<millstream.Dataset element_spec={self.element_spec!r}>"

    def explain(self) -> str:
        """Draws the operations of the dataset as text.

        Returns:
            One line for each operation, each above its input.
        """
        return self._graph.explain()

    def __reduce__(self) -> tuple[Any, ...]:
        # As a plain dataset, whichever class built it: what is kept is its graph.
        return (_unpickled, (self._graph.to_bytes(), self._reading, self._output, self._options))

    # Elements.

    def __iter__(self) -> Elements:
        if self._options.experimental_warm_start:
            opened = self._open()
            return recorded(Elements.lazy(lambda: opened, self), self._options)
        return recorded(Elements.lazy(self._open, self), self._options)

    async def __aiter__(self) -> AsyncIterator[Any]:
        elements = Elements.lazy(self._open, self)
        loop = asyncio.get_running_loop()
        try:
            while True:
                element = elements.ready(_END)
                if element is _END:
                    # What must be waited for is waited for on another thread.
                    element = await loop.run_in_executor(None, next, elements, _END)
                    if element is _END:
                        return
                yield element
        finally:
            elements.close()

    def as_numpy_iterator(self) -> NumpyIterator:
        """Iterates over the elements as numpy arrays and scalars, whatever ``with_output`` says.

        Returns:
            An iterator of one pass, which can save its position.

        Example:
            >>> [int(x) for x in ms.Dataset.range(3).as_numpy_iterator()]
            [0, 1, 2]
        """
        return NumpyIterator(self)

    @property
    def _task_id(self) -> int:
        """The number that stands for a seed where none is given. It is drawn late, so that few datasets touch the program's generator."""
        if not self._task:
            self._task.append(random.getrandbits(63))
        return self._task[0]

    def with_output(self, output: str) -> Dataset:
        """Yields the same elements as arrays or tensors of a framework, over the same memory.

        Passes are counted together, so a loop may call this again in every epoch.

        Args:
            output: ``"numpy"``, ``"torch"`` or ``"jax"``.

        Returns:
            The new dataset.

        Raises:
            InvalidArgumentError: The output is unknown, or its framework is not installed.
        """
        taker(output)
        made = Dataset(self._graph, reading=self._reading, output=output, options=copy.deepcopy(self._options), passes=self._passes)
        made._task, made._known_count = self._task, self._known_count
        return made

    def _open(self) -> Elements:
        return self._pass(next(self._passes))

    def _pass(self, number: int, task_id: int | None = None) -> Elements:
        """One pass by its number; ``task_id`` tells what is drawn without a seed, if that is not the dataset's own."""
        take = taker(self._output)
        if self._graph.is_within:
            raise TypeError("a dataset of a function has no elements until the function is called")
        if self._reading is not None:
            return self._reading.open(number, take)
        task_id = self._task_id if task_id is None else task_id
        if _debugging.is_enabled():
            return self._executed.run(number, 1, task_id, take, True)
        return self._executed.run(number, _threads(), task_id, take)

    def _on_demand(self, number: int) -> Elements:
        """One pass, of which each element is computed here, and only while it is waited for. Nothing in it draws but code of Python."""
        return self._executed.run(number, _threads(), 0, taker(self._output), True)

    def get_single_element(self, name: str | None = None) -> Any:
        """Reads a dataset of one element.

        Args:
            name: Accepted as in tf.data; has no effect.

        Returns:
            The element.

        Raises:
            InvalidArgumentError: The dataset has no element, or several.

        Example:
            >>> int(ms.Dataset.range(7, 8).get_single_element())
            7
        """
        found = list(self.take(2))
        if len(found) != 1:
            raise InvalidArgumentError(f"the dataset has {'no element' if not found else 'several elements'}, not one")
        return found[0]

    def reduce(self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: str | None = None) -> Any:
        """Combines all elements by a Python function, here and at once.

        Args:
            initial_state: The first state.
            reduce_func: A function of a state and an element that returns the next state.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The last state.

        Example:
            >>> int(ms.Dataset.range(5).reduce(0, lambda state, x: state + x))
            10
        """
        state = initial_state
        for element in self:
            state = reduce_func(state, element)
        return state

    # Operations.

    def _then(self, graph: Graph) -> Dataset:
        return self._made(graph, copy.deepcopy(self._options))

    def _made(self, graph: Graph, options: Options) -> Dataset:
        # Each pass of a job is read once: a dataset that is made again every epoch goes on with the next.
        is_read_once = not self._graph.is_within and self._graph.reads_service
        passes = self._passes if is_read_once else None
        return Dataset(graph, output=self._output, options=options, passes=passes)

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Applies a function to the dataset; for transformations such as ``ms.service.distribute``.

        Args:
            transformation_func: A function of a dataset that returns a dataset.

        Returns:
            The new dataset.

        Raises:
            TypeError: The function returned something else.
        """
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise TypeError(f"the function given to apply made {dataset!r} and not a dataset")
        return dataset

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Applies a function to each element, natively and without Python.

        The function is called once, with symbolic tensors, to record what it computes. Use ``map_python`` for code that needs values.

        Args:
            map_func: A function of the element; the parts of a tuple are separate arguments.
            num_parallel_calls: Threads that compute; ``ms.AUTOTUNE`` tunes them.
            deterministic: Whether parallel calls keep the order; true by default.
            synchronous: Accepted as in tf.data; has no effect.
            use_unbounded_threadpool: Accepted as in tf.data; has no effect.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(4).map(lambda x: x * x)]
            [0, 1, 4, 9]
        """
        made = called(map_func, self._graph)
        graph = applied(self._graph, made, lambda graph: _scheduled(graph, num_parallel_calls, deterministic))
        if _debugging.is_enabled() and not self._graph.is_within:
            return self.map_python(map_func, element_spec=dressed(graph.spec))
        return self._then(graph)

    def map_python(
        self,
        map_func: Callable[..., Any] | str,
        *,
        element_spec: Any = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        limits: Limits | None = None,
    ) -> Dataset:
        """Applies any Python function to each element.

        On workers it runs in Python processes, as many as there are calls at once, within ``limits``. After ``distribute`` it runs here.

        Args:
            map_func: A function, or the name ``module:function`` of one that workers can import.
            element_spec: The spec of the results. Without it, the function is called here with the first element.
            num_parallel_calls: Processes that compute; ``ms.AUTOTUNE`` tunes them.
            deterministic: Whether parallel calls keep the order; true by default.
            limits: Limits of the processes.

        Returns:
            The new dataset.

        Example:
            >>> [text for text in ms.Dataset.range(3).map_python(lambda x: f"number {x}")]
            ['number 0', 'number 1', 'number 2']
        """
        from ._code import packed, unpacked
        from ._worker import described

        code = packed(map_func, limits=limits)
        spec = described(self._first(unpacked(code))) if element_spec is None else plain(element_spec)
        return self._then(_scheduled(self._graph.map_python(spec, code), num_parallel_calls, deterministic))

    def flat_map_python(
        self,
        map_func: Callable[..., Any] | str,
        *,
        element_spec: Any = None,
        limits: Limits | None = None,
    ) -> Dataset:
        """Yields all that Python iterables yield, one iterable for each element.

        On workers, one process reads an iterable to its end. If the process dies before its first result, the element is begun again. A later death
        is an error, because another run might yield other results.

        Args:
            map_func: A function that returns an iterable, for example a generator; or the name ``module:function`` of one.
            element_spec: The spec of the results. Without it, the function is called here with the first element.
            limits: Limits of the processes.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(1, 4).flat_map_python(lambda x: [x] * int(x))]
            [1, 2, 2, 3, 3, 3]
        """
        from ._code import packed, unpacked
        from ._worker import described

        code = packed(map_func, limits=limits)
        spec = described(next(iter(self._first(unpacked(code))))) if element_spec is None else plain(element_spec)
        return self._then(self._graph.flat_map_python(spec, code))

    def _first(self, function: Callable[..., Any]) -> Any:
        """What a function makes of the first element, here."""
        first = self.take(1).get_single_element()
        return function(*first) if isinstance(first, tuple) else function(first)

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Keeps the elements for which a predicate is true.

        Args:
            predicate: A function of the element that returns a symbolic Boolean scalar.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(6).filter(lambda x: x % 2 == 0)]
            [0, 2, 4]
        """
        return self._then(_tensor.filtered(self._graph, called(predicate, self._graph), "filter_expr"))

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Yields elements up to the first for which a predicate is false.

        Args:
            predicate: A function of the element that returns a symbolic Boolean scalar.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(6).take_while(lambda x: x < 3)]
            [0, 1, 2]
        """
        return self._then(_tensor.filtered(self._graph, called(predicate, self._graph), "take_while_expr"))

    def flat_map(self, map_func: Callable[..., Dataset], name: str | None = None) -> Dataset:
        """Yields the elements of one dataset for each element, one dataset after the other.

        Args:
            map_func: A function of the element that returns a dataset.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.from_tensor_slices([[1, 2], [3, 4]]).flat_map(ms.Dataset.from_tensor_slices)]
            [1, 2, 3, 4]
        """
        return self._then(self._graph.flat_map(_body(map_func)))

    def interleave(
        self,
        map_func: Callable[..., Dataset],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Yields the elements of one dataset for each element, several datasets in turn.

        Args:
            map_func: A function of the element that returns a dataset.
            cycle_length: Datasets that are open at a time; by default as many as there are processors.
            block_length: Elements of one dataset in a turn; 1 by default.
            num_parallel_calls: Datasets that are read ahead by threads; ``ms.AUTOTUNE`` tunes them.
            deterministic: Whether parallel reading keeps the order; true by default.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> twice = lambda x: ms.Dataset.from_tensors(x).repeat(2)
            >>> [int(x) for x in ms.Dataset.range(4).interleave(twice, cycle_length=2)]
            [0, 1, 0, 1, 2, 3, 2, 3]
        """
        length = _threads() if cycle_length is None or cycle_length == AUTOTUNE else whole(cycle_length, "cycle_length")
        block = 1 if block_length is None else whole(block_length, "block_length")
        if not block:
            raise InvalidArgumentError("block_length=0: a turn has at least one element")
        graph = self._graph.interleave(length, block, _body(map_func))
        return self._then(_scheduled(graph, num_parallel_calls, deterministic))

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Stacks consecutive elements along a new leading dimension.

        Args:
            batch_size: Elements of a batch.
            drop_remainder: Whether a last batch of fewer elements is left out.
            num_parallel_calls: Accepted as in tf.data; has no effect.
            deterministic: Accepted as in tf.data; has no effect.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [batch.tolist() for batch in ms.Dataset.range(5).batch(2)]
            [[0, 1], [2, 3], [4]]
        """
        return self._then(self._graph.then("batch", size=whole(batch_size, "batch_size"), drop_remainder=bool(drop_remainder)))

    def unbatch(self, name: str | None = None) -> Dataset:
        """Yields the rows of every element.

        Args:
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(5).batch(2).unbatch()]
            [0, 1, 2, 3, 4]
        """
        return self._then(self._graph.then("unbatch"))

    def rebatch(self, batch_size: int | Sequence[int], drop_remainder: bool = False, name: str | None = None) -> Dataset:
        """Cuts the rows of batches into batches of other sizes.

        Args:
            batch_size: Rows of a batch; several sizes are used in turn.
            drop_remainder: Whether a last batch of fewer rows is left out.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [batch.tolist() for batch in ms.Dataset.range(6).batch(2).rebatch(3)]
            [[0, 1, 2], [3, 4, 5]]
        """
        sizes = [batch_size] if isinstance(batch_size, int | np.integer) else list(batch_size)
        return self._then(self._graph.then("rebatch", sizes=[whole(size, "batch_size") for size in sizes], drop_remainder=bool(drop_remainder)))

    def ragged_batch(
        self, batch_size: int, drop_remainder: bool = False, row_splits_dtype: Any = int64, name: str | None = None
    ) -> Dataset:
        """Stacks consecutive elements; tensors whose shapes vary become ragged tensors.

        Args:
            batch_size: Elements of a batch.
            drop_remainder: Whether a last batch of fewer elements is left out.
            row_splits_dtype: Must be ``int64``.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            UnimplementedError: The row splits are to have another dtype.

        Example:
            >>> rows = ms.Dataset.range(1, 4).map_python(lambda x: np.full(int(x), x), element_spec=ms.TensorSpec((None,), ms.int64))
            >>> next(iter(rows.ragged_batch(3))).to_list()
            [[1], [2, 2], [3, 3, 3]]
        """
        if as_dtype(row_splits_dtype) != int64:
            raise UnimplementedError(f"ragged_batch: expected row_splits_dtype=int64, found {as_dtype(row_splits_dtype)!r}")
        return self._then(self._graph.then("ragged_batch", size=whole(batch_size, "batch_size"), drop_remainder=bool(drop_remainder)))

    def sparse_batch(self, batch_size: int, row_shape: Sequence[int | None], name: str | None = None) -> Dataset:
        """Combines consecutive dense elements into sparse tensors, which hold all items, zeros too.

        Coordinates are computed by Python code: on workers, in a Python process.

        Args:
            batch_size: Elements of a batch.
            row_shape: The shape that each element fits in; ``None`` or -1 is as long as the longest of a batch.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            TypeError: An element is not one tensor.
            ValueError: The elements have another number of dimensions.

        Example:
            >>> rows = ms.Dataset.range(1, 3).map_python(lambda x: np.full(int(x), x), element_spec=ms.TensorSpec((None,), ms.int64))
            >>> next(iter(rows.sparse_batch(2, [3]))).to_dense().tolist()
            [[1, 0, 0], [2, 2, 0]]
        """
        from ._sparse import sparse_batches

        return sparse_batches(self, whole(batch_size, "batch_size"), row_shape)

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Stacks consecutive elements, padded to one shape.

        Args:
            batch_size: Elements of a batch.
            padded_shapes: Shapes, nested as elements are. ``None`` or -1 pads a dimension to the longest of the batch, and so does no shape.
            padding_values: Scalars, nested as elements are; zeros and empty strings by default.
            drop_remainder: Whether a last batch of fewer elements is left out.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> rows = ms.Dataset.range(1, 4).map_python(lambda x: np.full(int(x), x), element_spec=ms.TensorSpec((None,), ms.int64))
            >>> next(iter(rows.padded_batch(3))).tolist()
            [[1, 0, 0], [2, 2, 0], [3, 3, 3]]
        """
        shapes = shapes_of(padded_shapes, self.element_spec)
        values = values_of(padding_values, self.element_spec)
        return self._then(self._graph.then("padded_batch", size=whole(batch_size, "batch_size"), shapes=shapes, values=values, drop_remainder=bool(drop_remainder)))

    def shuffle(
        self,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> Dataset:
        """Draws elements at random from a buffer.

        Every pass draws otherwise, unless ``reshuffle_each_iteration`` is false. Then all passes of datasets made of this one draw the same, so
        ``take`` and ``skip`` divide it into parts.

        Args:
            buffer_size: Elements in the buffer. As large as the dataset, it shuffles completely.
            seed: The seed of the draws; with it they are the same on every worker.
            reshuffle_each_iteration: Whether passes differ; true by default.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> sorted(int(x) for x in ms.Dataset.range(5).shuffle(5, seed=1))
            [0, 1, 2, 3, 4]
        """
        size = whole(buffer_size, "buffer_size")
        return self._then(_drawn(self._graph.then("shuffle", buffer=size, seed=_seed(seed, reshuffle_each_iteration)), reshuffle_each_iteration))

    def repeat(self, count: int | None = None, name: str | None = None) -> Dataset:
        """Yields the dataset several times.

        Args:
            count: Passes; ``None`` or -1 for passes without end.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(2).repeat(2)]
            [0, 1, 0, 1]
        """
        return self._then(self._graph.then("repeat", count=None if count is None or count < 0 else count))

    def take(self, count: int, name: str | None = None) -> Dataset:
        """Yields the first elements.

        Args:
            count: Elements to yield; -1 for all.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(10).take(3)]
            [0, 1, 2]
        """
        return self._then(self._graph.then("take", count=count)) if count >= 0 else self

    def skip(self, count: int, name: str | None = None) -> Dataset:
        """Leaves out the first elements.

        Args:
            count: Elements to leave out; -1 for all.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(5).skip(3)]
            [3, 4]
        """
        return self._then(self._graph.then("skip", count=count) if count >= 0 else self._graph.then("take", count=0))

    def shard(self, num_shards: int, index: int, name: str | None = None) -> Dataset:
        """Yields every ``num_shards``-th element.

        Args:
            num_shards: Number of shards; ``ms.service.SHARD_HINT`` for the number of workers.
            index: Number of the shard, from 0.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(7).shard(3, 1)]
            [1, 4]
        """
        if num_shards == -1:
            return self._then(self._graph.then("shard", count=None, index=0, require_non_empty=False))
        return self._then(self._graph.then("shard", count=whole(num_shards, "num_shards"), index=whole(index, "index"), require_non_empty=False))

    def enumerate(self, start: int = 0, name: str | None = None) -> Dataset:
        """Yields tuples of a number and the element.

        Args:
            start: The first number.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [(int(i), int(x)) for i, x in ms.Dataset.range(10, 12).enumerate()]
            [(0, 10), (1, 11)]
        """
        return self._then(self._graph.then("enumerate", start=start))

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """Yields the elements of this dataset, then those of another.

        Args:
            dataset: The other dataset, with the same element spec.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            TypeError: The datasets have different specs.

        Example:
            >>> [int(x) for x in ms.Dataset.range(2).concatenate(ms.Dataset.range(5, 7))]
            [0, 1, 5, 6]
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"concatenate takes another dataset, not {dataset!r}")
        try:
            return self._then(Graph.joined([self._graph, dataset._graph], "concatenate"))
        except InvalidArgumentError as error:
            both = f"{self.element_spec} and {dataset.element_spec}"
            raise TypeError(f"Two datasets to concatenate have different types: {both}") from error

    def prefetch(self, buffer_size: int = AUTOTUNE, name: str | None = None) -> Dataset:
        """Computes elements before they are requested, on a thread of its own.

        Args:
            buffer_size: Elements in the buffer; ``ms.AUTOTUNE`` tunes it.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(3).prefetch(2)]
            [0, 1, 2]
        """
        return self._then(self._graph.then("prefetch", buffer=whole(_tuned(buffer_size), "buffer_size")))

    def cache(self, filename: str | os.PathLike[str] = "", name: str | None = None) -> Dataset:
        """Yields the elements of the first complete pass in every pass, from memory or from a directory.

        The memory is held as long as this dataset, or one made of it, exists. A pass that is left before its end keeps nothing.

        Args:
            filename: The directory; empty for memory.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.
        """
        path = path_of(filename)
        kept = self._graph.then("cache", path=path, bytes_max=0) if path else self._graph.then("cache", path=None)
        return self._then(kept)

    def snapshot(
        self,
        path: str | os.PathLike[str],
        compression: str | None = "AUTO",
        reader_func: Callable[..., Any] | None = None,
        shard_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Writes the elements of the first pass to files, and reads later passes from them.

        Args:
            path: The directory. A dataset with another definition gets a folder of its own in it.
            compression: ``AUTO``, ``LZ4``, ``GZIP`` or ``NONE``.
            reader_func: Must be ``None``: files are read in turn.
            shard_func: Must be ``None``: elements go to 8 files in turn.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            UnimplementedError: ``reader_func`` or ``shard_func`` is given.
            ValueError: The compression is unknown.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     dataset = ms.Dataset.range(3).snapshot(folder)
            ...     print([int(x) for x in dataset], [int(x) for x in dataset])
            [0, 1, 2] [0, 1, 2]
        """
        if reader_func is not None or shard_func is not None:
            raise UnimplementedError("snapshot: expected no reader_func and no shard_func: elements go to 8 files in turn, and are read in turn")
        return self._then(self._graph.then("snapshot", path=path_of(path), packing=packing_of(compression)))

    def unique(self, name: str | None = None) -> Dataset:
        """Yields the first of equal elements.

        Args:
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.from_tensor_slices([1, 2, 1, 3]).unique()]
            [1, 2, 3]
        """
        return self._then(self._graph.then("unique"))

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """Leaves out elements that fail.

        Args:
            log_warning: Whether each failure is logged.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.
        """
        return self._then(self._graph.then("ignore_errors", log_warning=bool(log_warning)))

    def on_error(self, policy: str) -> Dataset:
        """Sets the treatment of elements that fail, for all operations up to here.

        Args:
            policy: ``raise``, ``skip``, ``retry:n``, or ``retry:n,skip``.

        Returns:
            The new dataset.

        Raises:
            ValueError: The policy is unknown.

        Example:
            >>> inverse = ms.Dataset.range(3).map_python(lambda x: 6 // int(x), element_spec=ms.TensorSpec((), ms.int64))
            >>> [int(x) for x in inverse.on_error("skip")]
            [6, 3]
        """
        words = policy.split(",")
        retries = next((int(word.removeprefix("retry:")) for word in words if word.startswith("retry:")), 0)
        if not all(word in ("raise", "skip") or word.startswith("retry:") for word in words):
            raise ValueError(f"on_error {policy!r}: use raise, skip, retry:n, or retry:n,skip")
        return self._then(self._graph.then("options", on_error={"retries": retries, "skips": "skip" in words}))

    def assert_cardinality(self, expected_cardinality: int) -> Dataset:
        """States the number of elements. Reading another number is an error.

        Args:
            expected_cardinality: The number, or ``ms.INFINITE_CARDINALITY``.

        Returns:
            The new dataset.
        """
        count = None if expected_cardinality == INFINITE_CARDINALITY else expected_cardinality
        return self._then(self._graph.then("assert_cardinality", count=count))

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """Sets how all operations up to here are executed.

        Args:
            options: The options; those that are not set stay as they are.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.
        """
        if not isinstance(options, Options):
            raise TypeError(f"with_options: expected Options, found {options!r} of type {type(options).__name__}")
        return self._made(optioned(self._graph, options), self._options.merge(options))

    def options(self) -> Options:
        """The options of the execution.

        Returns:
            The options. Changing them changes this dataset, and all that are made of it from then on.
        """
        return self._options

    @property
    def _executed(self) -> Graph:
        # What was changed in the options themselves is in no graph yet.
        return self._graph if self._options == Options() else optioned(self._graph, self._options)

    def split_size(self, positions: int) -> Dataset:
        """Sets how many positions of a source a worker leases at a time.

        Args:
            positions: Positions of a split, 1 to 4096.

        Returns:
            The new dataset.
        """
        return self._then(self._graph.split_size(whole(positions, "positions")))


def _body(function: Callable[..., Dataset]) -> Callable[[Graph], Graph]:
    def body(graph: Graph) -> Graph:
        made = called(function, graph)
        if not isinstance(made, Dataset):
            raise TypeError(f"the function made {made!r} of an element and not a dataset")
        return made._graph

    return body


def _zipped(given: Any) -> Graph:
    if isinstance(given, Dataset):
        return given._graph
    if isinstance(given, Mapping):
        return Graph.joined([_zipped(item) for item in given.values()], "zip", names=[str(key) for key in given])
    if isinstance(given, tuple | list):
        return Graph.joined([_zipped(item) for item in given], "zip", names=None)
    raise TypeError(f"zip takes datasets, nested in tuples and dicts, not {given!r}")


def _rerandomized(seed: int | None, rerandomized: bool | None) -> bool | None:
    """Whether passes differ: with a seed only if that is said."""
    return False if rerandomized is None and seed is not None else rerandomized


def _seed(seed: int | None, draws_again: bool | None) -> int | None:
    """One is chosen where all passes draw alike and none is given, so that all that is made of the dataset draws alike too."""
    return random.getrandbits(63) if seed is None and draws_again is False else seed_of(seed)


def _drawn(graph: Graph, draws_again: bool | None) -> Graph:
    return graph.drawn_alike() if draws_again is False else graph


def _as_int64(x: Tensor) -> Tensor:
    return x.cast("int64")


def _unpickled(graph: bytes, reading: Reading | None, output: str, options: Options) -> Dataset:
    return Dataset(Graph.from_bytes(graph), reading=reading, output=output, options=options)
