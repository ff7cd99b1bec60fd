"""Datasets: chains of operations that run natively, in this process or on the workers of a service.

The methods are those of ``tf.data.Dataset``. Operations before ``distribute`` run on workers. Operations after ``distribute`` run in this
process.
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

from . import _debugging, _html, _tensor
from ._arguments import count_of, path_of, seed_of, whole
from ._captures import Parts, check_innermost, resolved
from ._composites import Ragged, Sparse
from ._dtypes import as_dtype, int64
from ._groups import GroupMethods
from ._hub import is_of_hub
from ._images import ImageMethods
from ._live import register_reader
from ._millstream import Elements, Graph
from ._numpy_iterator import NumpyIterator
from ._options import Options, optioned
from ._output import taker
from ._padding import shapes_of, values_of
from ._parsing import ParsingMethods
from ._saving import SavingMethods, packing_of
from ._spec import TensorSpec, dressed, dtypes_of, following, plain
from ._statistics import recorded
from ._structure import constants
from ._tensor import Tensor, applied, called, scope_of
from ._weights import choices
from .errors import InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from ._code import Limits
    from .service import Distribution, Reading

__all__ = ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "Dataset"]

AUTOTUNE = -1
INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2

_END = object()

#: The most elements that the buffer of a shuffle holds.
_BUFFER_MAX = 1 << 24


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _tuned(value: int | None) -> int:
    return 0 if value is None or value == AUTOTUNE else value


def _scheduled(graph: Graph, threads: int | None, deterministic: bool | None) -> Graph:
    """Returns the graph after a change of its last operation: the number of threads, and whether the order is kept."""
    if threads is None:
        return graph
    graph = graph.parallel(_tuned(threads))
    return graph if deterministic is None else graph.in_order(deterministic)


def _called(function: Callable[..., Any], element: Any) -> Any:
    """Returns the function's result for an element. A tuple passes its parts as separate arguments."""
    return function(*element) if isinstance(element, tuple) else function(element)


class Dataset(GroupMethods, ImageMethods, ParsingMethods, SavingMethods):
    """A pipeline: a source of elements, and operations on the elements. Datasets are immutable: every method returns a new dataset.

    Iteration yields elements with the structure of ``element_spec``: numpy arrays and scalars, ``str`` and ``bytes``. Arrays view the received
    memory without a copy. Arrays are writable, and valid as long as the program references them. ``iter`` starts no work before the first
    element is requested. Several iterators may exist at the same time, and each iterator runs a separate pass.

    Example:
        >>> dataset = ms.Dataset.range(5).map(lambda x: x * x).batch(2)
        >>> [batch.tolist() for batch in dataset]
        [[0, 1], [4, 9], [16]]
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
        #: The request to the service, for a dataset that only reads a service without further operations; otherwise ``None``.
        self._reading = reading
        self._output = output
        #: The counter that yields the number of the next pass. Datasets that share a reading share the job, and each pass is read only once.
        self._passes: Iterator[int] = reading.passes if reading is not None else passes or itertools.count()
        self._options = Options() if options is None else options
        #: The number of the task in a list, which is empty until the number is needed.
        self._task: list[int] = [] if task_id is None else [task_id]
        #: The number of elements, if the creator of the dataset knows the number and the graph does not.
        self._known_count: int | None = None
        #: The exactly-once reading of a service from which the dataset is made; otherwise ``None``.
        self._distribution: Distribution | None = None

    # Sources.

    @staticmethod
    def range(*args: int, output_type: Any = None, name: str | None = None) -> Dataset:
        """Yields the integers of Python's ``range``.

        Args:
            *args: The stop; or the start and the stop; or the start, the stop and the step. Within a function, tensors of its element.
            output_type: The dtype of the numbers; ``int64`` by default.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(2, 10, 3)]
            [2, 5, 8]
        """
        if not 1 <= len(args) <= 3:
            raise ValueError(f"range: expected (stop), (start, stop) or (start, stop, step), found {len(args)} numbers")
        bounds = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        if any(isinstance(bound, Tensor) for bound in bounds):
            from ._ranges import counted

            numbers = counted(*bounds)
        else:
            start, stop, step = map(count_of, bounds, ("start", "stop", "step"))
            numbers = Dataset(Graph.source("range", start=start, stop=stop, step=step))
        return numbers if output_type is None else numbers.map(lambda x: x.cast(output_type))

    @staticmethod
    def counter(start: int = 0, step: int = 1, dtype: Any = int64, name: str | None = None) -> Dataset:
        """Yields an infinite sequence of integers.

        Args:
            start: The first number.
            step: The difference between two consecutive numbers.
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
        """Yields an infinite sequence of random 32-bit integers.

        Every pass yields different numbers if ``rerandomize_each_iteration`` is true. Otherwise every pass yields the same numbers, as in
        tf.data.

        Args:
            seed: The seed of the numbers.
            rerandomize_each_iteration: Whether every pass uses different draws.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> numbers = ms.Dataset.random(seed=1).take(3)
            >>> [int(x) for x in numbers] == [int(x) for x in numbers]
            True
        """
        graph = Graph.source("random", seed=_seed(seed, rerandomize_each_iteration))
        return Dataset(_drawn(graph, bool(rerandomize_each_iteration)))

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Yields a single element.

        Args:
            tensors: The element: arrays, which may be nested in tuples and dicts.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> next(iter(ms.Dataset.from_tensors({"a": [1, 2, 3]})))["a"].tolist()
            [1, 2, 3]
        """
        scope = scope_of(tensors)
        if scope is not None:
            return Dataset(applied(check_innermost(scope), _tensor.stacked(tensors)))
        described, data = constants(tensors)
        return Dataset(Graph.tensors(described, data))

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Yields the slices of arrays along their leading dimension.

        Args:
            tensors: Arrays with equal leading dimensions, which may be nested in tuples and dicts.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            TypeError: The argument is a ragged or sparse tensor.

        Example:
            >>> [(int(x), y) for x, y in ms.Dataset.from_tensor_slices(([1, 2], ["a", "b"]))]
            [(1, 'a'), (2, 'b')]
        """
        scope = scope_of(tensors)
        if scope is not None:
            return Dataset(applied(check_innermost(scope), _tensor.stacked(tensors)).then("unbatch"))
        if isinstance(tensors, Ragged | Sparse):
            raise TypeError("from_tensor_slices does not slice ragged or sparse tensors: use from_tensors, or pass a list of rows")
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
        """Yields the elements of a Python generator. Every pass calls the generator again.

        The generator runs in the process that runs the pipeline: this process, or a Python process on a worker. Workers run a copy of the
        generator and of the objects that it refers to.

        Args:
            generator: A function that returns an iterable.
            output_types: The dtypes, in the structure of the elements; an older alternative to ``output_signature``.
            output_shapes: The shapes, in the structure of the elements.
            args: The arguments of the generator.
            output_signature: The specs, in the structure of the elements.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            TypeError: ``generator`` is not callable, or no argument states the dtypes.

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
        """Yields the paths of the files that match patterns.

        Args:
            file_pattern: One or several glob patterns, for local files, for an object store, or for a dataset of the Hugging Face hub
                (``hf://datasets/ORG/NAME[@REVISION]/PATTERN``).
            shuffle: Whether every pass shuffles the paths; ``None`` means true. With ``False`` the paths are sorted.
            seed: The seed of the shuffle.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Raises:
            ValueError: The list of patterns is empty.

        Example:
            >>> import tempfile
            >>> with tempfile.NamedTemporaryFile(suffix=".txt") as file:
            ...     print([path == file.name for path in ms.Dataset.list_files(file.name)])
            [True]
        """
        listed = [file_pattern] if isinstance(file_pattern, str | os.PathLike) else file_pattern
        patterns = [path_of(pattern) for pattern in listed]
        if not patterns:
            raise ValueError("list_files: expected a pattern, found an empty list")

        def files(pattern: str) -> Graph:
            if is_of_hub(pattern):
                from ._hub_paths import listing

                return listing(pattern, shuffle is not False, seed)
            return Graph.source("files", pattern=pattern, shuffle=shuffle is not False, seed=None if shuffle is False else seed_of(seed))

        graphs = [files(pattern) for pattern in patterns]
        return Dataset(graphs[0] if len(graphs) == 1 else Graph.joined(graphs, "concatenate"))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Yields tuples or dicts with one element of each dataset, until the shortest dataset ends.

        Args:
            *args: The datasets; or one tuple or dict of datasets, which may be nested.
            datasets: A tuple or dict of datasets, instead of ``args``.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset, with the options of all datasets.

        Raises:
            TypeError: No dataset is passed, both arguments are, or an argument is no dataset.

        Example:
            >>> a, b = ms.Dataset.range(3), ms.Dataset.range(10, 20)
            >>> [(int(x), int(y)) for x, y in ms.Dataset.zip(a, b)]
            [(0, 10), (1, 11), (2, 12)]
        """
        if args and datasets is not None:
            raise TypeError("zip: expected *args or datasets, found both: pass all datasets in one of the two")
        given = args if datasets is None else datasets
        given = given[0] if datasets is None and len(args) == 1 else given
        inputs = list(_datasets(given))
        if not inputs:
            raise TypeError("zip: expected at least one dataset, found none")
        return _joined(inputs, _zipped(given))

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Dataset],
        weights: Sequence[float] | Dataset | None = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """Yields elements of several datasets. Each element comes from a dataset that is drawn at random in proportion to its weight.

        Every pass draws differently if ``rerandomize_each_iteration`` is true. Otherwise every pass draws the same, as in tf.data.

        Args:
            datasets: The datasets, which must have equal element specs.
            weights: The weight of each dataset; by default all weights are equal. Datasets with weight 0 are left out. A dataset of vectors
                of floats has the weights of one draw in each element, and its end is the end of the result.
            seed: The seed of the random draws.
            stop_on_empty_dataset: Whether the result ends when one dataset ends. Otherwise the remaining datasets continue.
            rerandomize_each_iteration: Whether every pass uses different draws.

        Returns:
            The new dataset.

        Raises:
            ValueError: There is no dataset, or the number of weights differs from the number of datasets.
            TypeError: The datasets have different structures or dtypes, or a dataset of weights has other elements than vectors of floats.

        Example:
            >>> a, b = ms.Dataset.range(2), ms.Dataset.range(10, 12)
            >>> sorted(int(x) for x in ms.Dataset.sample_from_datasets([a, b], seed=1))
            [0, 1, 10, 11]
        """
        if not datasets:
            raise ValueError("sample_from_datasets: expected at least one dataset, found none")
        if isinstance(weights, Dataset):
            draws = Dataset.random(seed, rerandomize_each_iteration)
            return Dataset.choose_from_datasets(datasets, choices(weights, draws, len(datasets)), stop_on_empty_dataset)
        if weights is not None and len(weights) != len(datasets):
            raise ValueError(f"expected one weight for each of {len(datasets)} datasets, found {len(weights)} weights")
        shares = [1.0] * len(datasets) if weights is None else [float(weight) for weight in weights]
        _check_alike(datasets, "sample_from_datasets")
        drawn = [(share, dataset._graph) for share, dataset in zip(shares, datasets, strict=True) if share != 0]
        graph = Graph.joined(
            [graph for _, graph in drawn],
            "sample",
            weights=[share for share, _ in drawn],
            seed=_seed(seed, rerandomize_each_iteration),
            stop_on_empty=bool(stop_on_empty_dataset),
        )
        return _joined(datasets, _drawn(graph, bool(rerandomize_each_iteration)))

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Yields elements of several datasets. Another dataset selects the dataset of each element.

        Args:
            datasets: The datasets, which must have equal element specs.
            choice_dataset: A dataset of indices in ``datasets``.
            stop_on_empty_dataset: Whether the result ends when a chosen dataset has ended. Otherwise choices of an ended dataset are skipped.

        Returns:
            The new dataset.

        Raises:
            TypeError: The indices are not scalars of an integer dtype, or the datasets have different structures or dtypes.

        Example:
            >>> a, b = ms.Dataset.range(3), ms.Dataset.range(10, 13)
            >>> choices = ms.Dataset.from_tensor_slices([0, 1, 1])
            >>> [int(x) for x in ms.Dataset.choose_from_datasets([a, b], choices)]
            [0, 10, 11]
        """
        _check_alike(datasets, "choose_from_datasets")
        graphs = [dataset._graph for dataset in datasets]
        spec = choice_dataset.element_spec
        if not isinstance(spec, TensorSpec) or not spec.dtype.is_integer or spec.shape != ():
            raise TypeError(f"choose_from_datasets: expected a choice_dataset of int64 scalars, found elements of {spec}")
        choices = choice_dataset if spec.dtype == "int64" else choice_dataset.map(_as_int64)
        return _joined([*datasets, choices], Graph.choose(choices._graph, graphs, stop_on_empty_dataset))

    # Properties.

    @property
    def element_spec(self) -> Any:
        """The specs of an element (``TensorSpec`` and similar), in the structure of the element."""
        return dressed(self._graph.spec)

    def cardinality(self) -> int:
        """Returns the number of elements, without computing the elements.

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
            known = "is infinite" if count == INFINITE_CARDINALITY else "has an unknown number of elements"
            raise TypeError(f"the dataset {known}, so it has no len()")
        return count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<millstream.Dataset element_spec={self.element_spec!r}>"

    def _repr_html_(self) -> str:
        counts = {INFINITE_CARDINALITY: "infinite", UNKNOWN_CARDINALITY: "unknown"}
        known = self.cardinality()
        rows = [("elements", counts.get(known, known)), ("element_spec", self.element_spec), ("output", self._output)]
        operations = _html.lines(["operations, the last one first:", *self.explain().rstrip().splitlines()])
        return _html.block("millstream.Dataset", _html.table(rows), operations)

    def explain(self) -> str:
        """Describes the operations of the dataset as text.

        Returns:
            One line for each operation. The line of an operation is above the line of its input.
        """
        return self._graph.explain()

    def __reduce__(self) -> tuple[Any, ...]:
        # A dataset of any class is pickled as a plain `Dataset`, because its graph is complete.
        return (_unpickled, (self._graph.to_bytes(), self._reading, self._output, self._options, self._distribution))

    # Elements.

    def __iter__(self) -> Elements:
        opened = self._open() if self._options.experimental_warm_start else None
        lazy = Elements.lazy(self._open if opened is None else lambda: opened, self)
        if self._graph.is_served:
            register_reader(self, lazy)
        elements: Elements = recorded(lazy, self._options)
        return elements

    async def __aiter__(self) -> AsyncIterator[Any]:
        elements = Elements.lazy(self._open, self)
        if self._graph.is_served:
            register_reader(self, elements)
        loop = asyncio.get_running_loop()
        try:
            while True:
                element = elements.ready(_END)
                if element is _END:
                    # Waits run on another thread, so that the event loop continues.
                    element = await loop.run_in_executor(None, next, elements, _END)
                    if element is _END:
                        return
                yield element
        finally:
            elements.close()

    def as_numpy_iterator(self) -> NumpyIterator:
        """Iterates over the elements as numpy arrays and scalars, independent of ``with_output``.

        Returns:
            An iterator of one pass, which can save its position.

        Example:
            >>> [int(x) for x in ms.Dataset.range(3).as_numpy_iterator()]
            [0, 1, 2]
        """
        return NumpyIterator(self)

    @property
    def _task_id(self) -> int:
        """The number that replaces a missing seed. The number is drawn at first use, so that few datasets use the program's generator."""
        if not self._task:
            self._task.append(random.getrandbits(63))
        return self._task[0]

    def with_output(self, output: str) -> Dataset:
        """Yields the same elements as arrays or tensors of a framework, which view the same memory.

        Both datasets share the count of passes, so a loop may call ``with_output`` again in every epoch.

        Args:
            output: ``"numpy"``, ``"torch"`` or ``"jax"``.

        Returns:
            The new dataset.

        Raises:
            InvalidArgumentError: The output is unknown, or the framework is not installed.
        """
        taker(output)
        made = Dataset(self._graph, reading=self._reading, output=output, options=copy.deepcopy(self._options), passes=self._passes)
        made._task, made._known_count = self._task, self._known_count
        return made._alike(self)

    def _open(self) -> Elements:
        return self._pass(next(self._passes))

    def _pass(self, number: int, task_id: int | None = None) -> Elements:
        """Opens the pass with this number. ``task_id`` replaces missing seeds; by default the dataset's own number replaces them."""
        take = taker(self._output)
        if self._graph.is_within:
            raise TypeError("a dataset inside a function of another dataset cannot be iterated: return the dataset from the function")
        if self._reading is not None:
            return self._reading.open(number, take)
        task_id = self._task_id if task_id is None else task_id
        if _debugging.is_enabled():
            return self._executed.run(number, 1, task_id, take, True)
        return self._executed.run(number, _threads(), task_id, take)

    def _on_demand(self, number: int) -> Elements:
        """Opens a pass that computes elements in this process, only while the caller waits. Only Python code in the pass may draw numbers."""
        return self._executed.run(number, _threads(), 0, taker(self._output), True)

    def get_single_element(self, name: str | None = None) -> Any:
        """Returns the only element of the dataset.

        Args:
            name: Accepted as in tf.data; has no effect.

        Returns:
            The element.

        Raises:
            InvalidArgumentError: The dataset has no element, or several elements.

        Example:
            >>> int(ms.Dataset.range(7, 8).get_single_element())
            7
        """
        found = list(self.take(2))
        if len(found) != 1:
            raise InvalidArgumentError(f"expected a dataset of one element, found {'no element' if not found else 'several elements'}")
        return found[0]

    def reduce(self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: str | None = None) -> Any:
        """Combines all elements with a Python function. Reads the whole dataset in this process before it returns.

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
        # A pass of a job is read only once. The new dataset therefore continues with the next pass of this dataset.
        is_read_once = not self._graph.is_within and self._graph.reads_service
        passes = self._passes if is_read_once else None
        made = Dataset(graph, output=self._output, options=options, passes=passes)
        made._distribution = None if self._distribution is None else self._distribution.followed()
        return made

    def _alike(self, other: Dataset) -> Dataset:
        """Notes that this dataset has the elements of the other one, so that a loader reads both alike. Returns this dataset."""
        self._distribution = other._distribution
        return self

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Applies a function to the dataset, for example the result of ``ms.service.distribute``.

        Args:
            transformation_func: A function that takes and returns a dataset.

        Returns:
            The new dataset.

        Raises:
            TypeError: The function did not return a dataset.

        Example:
            >>> even = lambda dataset: dataset.filter(lambda x: x % 2 == 0)
            >>> [int(x) for x in ms.Dataset.range(6).apply(even)]
            [0, 2, 4]
        """
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise TypeError(f"the function of apply returned {dataset!r}, which is not a dataset")
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

        The function is called once with symbolic tensors, and the recorded operations run for each element. Use ``map_python`` for code that
        needs values.

        Args:
            map_func: A function of the element. The components of a tuple are separate arguments.
            num_parallel_calls: The number of threads that compute; ``ms.AUTOTUNE`` tunes the number.
            deterministic: Whether the results of parallel calls keep the order of the elements; true by default.
            synchronous: Accepted as in tf.data; has no effect.
            use_unbounded_threadpool: Accepted as in tf.data; has no effect.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(4).map(lambda x: x * x)]
            [0, 1, 4, 9]
        """

        def add(graph: Graph, parts: Parts) -> Graph:
            made = called(map_func, graph, parts)
            return applied(graph, made, lambda graph: _scheduled(graph, num_parallel_calls, deterministic))

        graph = resolved(self._graph, add)
        if _debugging.is_enabled() and not self._graph.is_within:
            return self._then(self._graph.map_python(graph.spec, _debugging.code_of(map_func)))
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

        On workers the function runs in Python processes, one process for each concurrent call, within ``limits``. After ``distribute`` the
        function runs in this process.

        Args:
            map_func: A function, or the name ``module:function`` of a function that workers can import.
            element_spec: The spec of the results. By default the function is called once in this process with the first element, to find the spec.
                After ``batch``, the leading dimensions of the found spec are unknown, because the last batch may be smaller.
            num_parallel_calls: The number of processes that compute; ``ms.AUTOTUNE`` tunes the number.
            deterministic: Whether the results of parallel calls keep the order of the elements; true by default.
            limits: The limits of the Python processes on workers.

        Returns:
            The new dataset.

        Example:
            >>> [text for text in ms.Dataset.range(3).map_python(lambda x: f"number {x}")]
            ['number 0', 'number 1', 'number 2']
        """
        from ._code import packed, unpacked
        from ._worker import described, tensors

        code = packed(map_func, limits=limits)
        if element_spec is None:
            first = self.take(1).get_single_element()
            given = self._graph.spec
            shapes = [shape for _, shape, _ in tensors(first, given)]
            spec = following(described(_called(unpacked(code), first)), given, shapes)
        else:
            spec = plain(element_spec)
        return self._then(_scheduled(self._graph.map_python(spec, code), num_parallel_calls, deterministic))

    def flat_map_python(
        self,
        map_func: Callable[..., Any] | str,
        *,
        element_spec: Any = None,
        limits: Limits | None = None,
    ) -> Dataset:
        """Calls a Python function for each element, and yields all elements of the iterable that the function returns.

        On workers, one process reads an iterable to its end. If the process dies before its first result, another process starts the iterable
        again. A later death is an error, because another run might yield different results.

        Args:
            map_func: A function that returns an iterable, for example a generator function; or the name ``module:function`` of such a function.
            element_spec: The spec of the results. By default the function is called once in this process with the first element, to find the spec.
            limits: The limits of the Python processes on workers.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(1, 4).flat_map_python(lambda x: [x] * int(x))]
            [1, 2, 2, 3, 3, 3]
        """
        from ._code import packed, unpacked
        from ._worker import described

        code = packed(map_func, limits=limits)
        if element_spec is None:
            spec = described(next(iter(_called(unpacked(code), self.take(1).get_single_element()))))
        else:
            spec = plain(element_spec)
        return self._then(self._graph.flat_map_python(spec, code))

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
        return self._then(_filtered(self._graph, predicate, "filter_expr"))

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Yields elements until a predicate is false for the first time.

        Args:
            predicate: A function of the element that returns a symbolic Boolean scalar.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(6).take_while(lambda x: x < 3)]
            [0, 1, 2]
        """
        return self._then(_filtered(self._graph, predicate, "take_while_expr"))

    def flat_map(self, map_func: Callable[..., Dataset], name: str | None = None) -> Dataset:
        """Turns each element into a dataset, and yields the elements of these datasets, one dataset after the other.

        Args:
            map_func: A function of the element that returns a dataset.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.from_tensor_slices([[1, 2], [3, 4]]).flat_map(ms.Dataset.from_tensor_slices)]
            [1, 2, 3, 4]
        """
        return self._then(resolved(self._graph, lambda graph, parts: graph.flat_map(_body(map_func, parts))))

    def interleave(
        self,
        map_func: Callable[..., Dataset],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Turns each element into a dataset, and yields elements of several of these datasets in turn.

        Args:
            map_func: A function of the element that returns a dataset.
            cycle_length: The number of datasets that are open at a time; by default the number of processors.
            block_length: The number of elements of one dataset in a turn; 1 by default.
            num_parallel_calls: The number of datasets that threads prefetch; ``ms.AUTOTUNE`` tunes the number.
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
            raise InvalidArgumentError("block_length=0: must be at least 1")
        graph = resolved(self._graph, lambda graph, parts: graph.interleave(length, block, _body(map_func, parts)))
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
            batch_size: The number of elements in a batch.
            drop_remainder: Whether to leave out a last batch with fewer elements.
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
        """Yields the rows of every element as separate elements.

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
            batch_size: The number of rows in a batch, or several numbers, which are used in turn.
            drop_remainder: Whether to leave out a last batch with fewer rows.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [batch.tolist() for batch in ms.Dataset.range(6).batch(2).rebatch(3)]
            [[0, 1, 2], [3, 4, 5]]
        """
        sizes = [whole(size, "batch_size") for size in ([batch_size] if isinstance(batch_size, int | np.integer) else batch_size)]
        # Without a remainder to drop, all batches have one size, which the spec then states.
        is_even = drop_remainder or _is_even(self._graph.spec, sizes)
        return self._then(self._graph.then("rebatch", sizes=sizes, drop_remainder=is_even))

    def ragged_batch(
        self, batch_size: int, drop_remainder: bool = False, row_splits_dtype: Any = int64, name: str | None = None
    ) -> Dataset:
        """Stacks consecutive elements. Tensors whose shapes vary become ragged tensors.

        Args:
            batch_size: The number of elements in a batch.
            drop_remainder: Whether to leave out a last batch with fewer elements.
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
        """Pads consecutive elements to the same shape, and stacks the padded elements.

        Args:
            batch_size: The number of elements in a batch.
            padded_shapes: The padded shapes, in the structure of the elements. A dimension of ``None`` or -1 is padded to the longest in the batch.
                By default all dimensions are padded to the longest in the batch.
            padding_values: The padding, as scalars in the structure of the elements; zeros and empty strings by default.
            drop_remainder: Whether to leave out a last batch with fewer elements.
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

        Every pass has a different order, unless ``reshuffle_each_iteration`` is false. With false, all passes of all datasets that are derived from
        the result have the same order, so ``take`` and ``skip`` divide the dataset into disjoint parts.

        Args:
            buffer_size: The number of elements in the buffer. A buffer of the dataset's size shuffles completely, and so does
                ``ms.UNKNOWN_CARDINALITY``, for datasets of up to 2^24 elements.
            seed: The seed of the order. With a seed, the order is the same on every worker.
            reshuffle_each_iteration: Whether every pass has a different order; true by default.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> sorted(int(x) for x in ms.Dataset.range(5).shuffle(5, seed=1))
            [0, 1, 2, 3, 4]
        """
        size = self._whole_buffer() if buffer_size == UNKNOWN_CARDINALITY else whole(buffer_size, "buffer_size")
        return self._then(_drawn(self._graph.then("shuffle", buffer=size, seed=_seed(seed, reshuffle_each_iteration)), reshuffle_each_iteration))

    def _whole_buffer(self) -> int:
        """Returns the size of a buffer that holds the whole dataset."""
        count = self.cardinality()
        if count == INFINITE_CARDINALITY:
            raise InvalidArgumentError("shuffle: expected a dataset with an end for buffer_size=UNKNOWN_CARDINALITY, found an infinite dataset")
        return _BUFFER_MAX if count == UNKNOWN_CARDINALITY else max(count, 1)

    def repeat(self, count: int | None = None, name: str | None = None) -> Dataset:
        """Yields the elements of the dataset several times.

        Args:
            count: The number of passes; ``None`` or -1 for endless repetition.
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
            count: The number of elements to yield; -1 for all elements.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(10).take(3)]
            [0, 1, 2]
        """
        count = count_of(count, "count")
        return self._then(self._graph.then("take", count=count)) if count >= 0 else self

    def skip(self, count: int, name: str | None = None) -> Dataset:
        """Leaves out the first elements.

        Args:
            count: The number of elements to leave out; -1 for all elements.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(5).skip(3)]
            [3, 4]
        """
        count = count_of(count, "count")
        return self._then(self._graph.then("skip", count=count) if count >= 0 else self._graph.then("take", count=0))

    def shard(self, num_shards: int, index: int, name: str | None = None) -> Dataset:
        """Yields every ``num_shards``-th element.

        Args:
            num_shards: The number of shards; ``ms.service.SHARD_HINT`` uses the number of workers.
            index: The number of the shard, from 0.
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
        """Numbers the elements. Yields tuples of a number and the element.

        Args:
            start: The number of the first element.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [(int(i), int(x)) for i, x in ms.Dataset.range(10, 12).enumerate()]
            [(0, 10), (1, 11)]
        """
        return self._then(self._graph.then("enumerate", start=count_of(start, "start")))

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """Yields the elements of this dataset, followed by the elements of another dataset.

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
            raise TypeError(f"concatenate: expected another dataset, not {dataset!r}")
        try:
            return _joined([self, dataset], Graph.joined([self._graph, dataset._graph], "concatenate"), self._output)
        except InvalidArgumentError as error:
            both = f"{self.element_spec} and {dataset.element_spec}"
            raise TypeError(f"Two datasets to concatenate have different types: {both}") from error

    def prefetch(self, buffer_size: int = AUTOTUNE, name: str | None = None) -> Dataset:
        """Computes elements before they are requested, on a separate thread.

        Args:
            buffer_size: The maximum number of elements in the buffer; ``ms.AUTOTUNE`` tunes the number.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> [int(x) for x in ms.Dataset.range(3).prefetch(2)]
            [0, 1, 2]
        """
        return self._then(self._graph.then("prefetch", buffer=whole(_tuned(buffer_size), "buffer_size")))._alike(self)

    def cache(self, filename: str | os.PathLike[str] = "", name: str | None = None) -> Dataset:
        """Stores the elements of the first complete pass in memory or in a directory. Every later pass yields the stored elements.

        The memory is held as long as this dataset, or a dataset that is derived from it, exists. A pass that ends early stores no elements.

        Args:
            filename: The directory; an empty string stores the elements in memory.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> cached = ms.Dataset.range(5).shuffle(5).cache()
            >>> [int(x) for x in cached] == [int(x) for x in cached]
            True
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
            path: The directory. Each definition of a dataset has a separate folder in the directory.
            compression: The compression of the files: ``AUTO``, ``LZ4``, ``GZIP`` or ``NONE``.
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
        """Yields each distinct element once, at its first occurrence.

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
        """Leaves out elements whose computation fails.

        Args:
            log_warning: Whether to log a warning for each failure.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> inverse = ms.Dataset.range(3).map_python(lambda x: 6 // int(x), element_spec=ms.TensorSpec((), ms.int64))
            >>> [int(x) for x in inverse.ignore_errors()]
            [6, 3]
        """
        return self._then(self._graph.then("ignore_errors", log_warning=bool(log_warning)))

    def on_error(self, policy: str) -> Dataset:
        """Sets the reaction to elements whose computation fails, for all operations before this call.

        Args:
            policy: ``raise``, ``skip``, ``retry:n`` (up to n retries, then raise), or ``retry:n,skip`` (up to n retries, then skip).

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
        """Declares the number of elements. A pass with another number of elements raises an error.

        Args:
            expected_cardinality: The number of elements, or ``ms.INFINITE_CARDINALITY``.

        Returns:
            The new dataset.
        """
        count = None if expected_cardinality == INFINITE_CARDINALITY else expected_cardinality
        return self._then(self._graph.then("assert_cardinality", count=count))

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """Sets options for the execution of all operations before this call.

        Args:
            options: The options to set. Unset options keep their present values.
            name: Accepted as in tf.data; has no effect.

        Returns:
            The new dataset.

        Example:
            >>> options = ms.Options()
            >>> options.deterministic = True
            >>> [int(x) for x in ms.Dataset.range(3).map(lambda x: x + 1, num_parallel_calls=2).with_options(options)]
            [1, 2, 3]
        """
        if not isinstance(options, Options):
            raise TypeError(f"with_options: expected Options, found {options!r} of type {type(options).__name__}")
        return self._made(optioned(self._graph, options), self._options.merge(options))._alike(self)

    def options(self) -> Options:
        """Returns the options for the execution of the dataset.

        Returns:
            The options. A change to the returned object changes this dataset, and all datasets that are derived from it later.

        Example:
            >>> ms.Dataset.range(3).options().deterministic is None
            True
        """
        return self._options

    @property
    def _executed(self) -> Graph:
        # The graph does not contain changes that the program made to the object `options()`.
        return self._graph if self._options == Options() else optioned(self._graph, self._options)

    def split_size(self, positions: int) -> Dataset:
        """Sets the number of positions of the source in one split, which a worker leases as a whole.

        Args:
            positions: The number of positions in a split, from 1 to 4096.

        Returns:
            The new dataset.
        """
        return self._then(self._graph.split_size(whole(positions, "positions")))


def _filtered(graph: Graph, predicate: Callable[..., Any], operation: str) -> Graph:
    return resolved(graph, lambda graph, parts: _tensor.filtered(graph, called(predicate, graph, parts), operation), keeps=True)


def _body(function: Callable[..., Dataset], parts: Parts) -> Callable[[Graph], Graph]:
    def body(graph: Graph) -> Graph:
        made = called(function, graph, parts)
        if not isinstance(made, Dataset):
            raise TypeError(f"the function returned {made!r} for an element, which is not a dataset")
        return made._graph

    return body


def _zipped(given: Any) -> Graph:
    if isinstance(given, Dataset):
        return given._graph
    if isinstance(given, Mapping):
        return Graph.joined([_zipped(item) for item in given.values()], "zip", names=[str(key) for key in given])
    if isinstance(given, tuple | list):
        return Graph.joined([_zipped(item) for item in given], "zip", names=None)
    raise TypeError(f"zip takes datasets, which may be nested in tuples and dicts, not {given!r}")


def _datasets(given: Any) -> Iterator[Dataset]:
    if isinstance(given, Dataset):
        yield given
        return
    if not isinstance(given, Mapping | tuple | list):
        raise TypeError(f"zip: expected datasets, which may be nested in tuples and dicts, found {given!r}")
    for item in given.values() if isinstance(given, Mapping) else given:
        yield from _datasets(item)


def _joined(datasets: Sequence[Dataset], graph: Graph, output: str = "numpy") -> Dataset:
    """Returns the dataset of a graph that joins datasets, with the options of all datasets."""
    options = Options()
    for dataset in datasets:
        options = options.merge(dataset._options)
    # A pass of a job is read only once. The new dataset therefore continues with the next pass.
    readers = [dataset for dataset in datasets if not dataset._graph.is_within and dataset._graph.reads_service]
    return Dataset(graph, output=output, options=options, passes=readers[0]._passes if readers else None)


def _check_alike(datasets: Sequence[Dataset], name: str) -> None:
    """Checks that datasets have one structure, and one dtype for each component."""
    for index, dataset in enumerate(datasets):
        if dtypes_of(dataset._graph.spec) != dtypes_of(datasets[0]._graph.spec):
            specs = f"{datasets[0].element_spec} in dataset 0 and {dataset.element_spec} in dataset {index}"
            raise TypeError(f"{name}: expected datasets of one structure and of equal dtypes, found {specs}")


def _seed(seed: int | None, draws_again: bool | None) -> int | None:
    """Returns the seed. Chooses a seed if all passes must draw alike, so that all derived datasets draw alike, too."""
    return random.getrandbits(63) if seed is None and draws_again is False else seed_of(seed)


def _drawn(graph: Graph, draws_again: bool | None) -> Graph:
    return graph.drawn_alike() if draws_again is False else graph


def _is_even(described: Any, sizes: Sequence[int]) -> bool:
    """Returns whether every element of a spec is cut into whole batches of one size."""
    kind, parts = described[:2]
    if kind == "tensor":
        dims = described[2]
        return bool(dims) and dims[0] is not None and len(set(sizes)) == 1 and sizes[0] > 0 and dims[0] % sizes[0] == 0
    nested = [part for _, part in parts] if kind == "dict" else parts if kind in ("tuple", "list") else []
    return bool(nested) and all(_is_even(part, sizes) for part in nested)


def _as_int64(x: Tensor) -> Tensor:
    return x.cast("int64")


def _unpickled(graph: bytes, reading: Reading | None, output: str, options: Options, distribution: Distribution | None = None) -> Dataset:
    made = Dataset(Graph.from_bytes(graph), reading=reading, output=output, options=options)
    made._distribution = distribution
    return made
