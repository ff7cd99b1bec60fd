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

from . import _tensor
from ._millstream import Elements, Graph
from ._arguments import path_of, seed_of, whole
from ._composites import Ragged, Sparse
from .errors import InvalidArgumentError, UnimplementedError
from ._groups import GroupMethods
from ._images import ImageMethods
from ._options import Options, optioned
from ._output import taker
from ._padding import shapes_of, values_of
from ._spec import dressed, plain
from ._structure import constants
from ._tensor import Tensor, applied, arguments, called, scope_of

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


class Dataset(GroupMethods, ImageMethods):
    """Elements and the operations on them. Immutable: every method makes a new dataset.

    Iterating yields elements nested as ``element_spec`` says: numpy arrays and scalars, ``str`` and ``bytes``. Arrays are
    views of the memory that elements arrived in, valid as long as they are referenced, and writable. ``iter`` does nothing
    before the first element is asked for; several iterators may live at a time, and each is a pass of its own.
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
        #: The numbers of the passes to come. Whoever shares a reading shares its job, of which each pass is read once.
        self._passes: Iterator[int] = reading.passes if reading is not None else passes or itertools.count()
        self._options = Options() if options is None else options
        #: The number of the task, once anybody has asked for it.
        self._task: list[int] = [] if task_id is None else [task_id]
        #: The number of elements, where the maker of the dataset knows more than the graph.
        self._known_count: int | None = None

    # Sources.

    @staticmethod
    def range(*args: int, output_type: Any = None, name: str | None = None) -> Dataset:
        """Integers, as Python's ``range``."""
        if not 1 <= len(args) <= 3:
            raise ValueError(f"range takes a stop, a start and a stop, or a step as well, not {len(args)} numbers")
        if any(isinstance(arg, Tensor) for arg in args):
            raise UnimplementedError("a range of numbers that are computed: make it of a tensor of them, by from_tensor_slices")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        numbers = Dataset(Graph.source("range", start=start, stop=stop, step=step))
        return numbers if output_type is None else numbers.map(lambda x: x.cast(output_type))

    @staticmethod
    def counter(start: int = 0, step: int = 1, dtype: Any = None, name: str | None = None) -> Dataset:
        """Integers without end."""
        numbers = Dataset(Graph.source("counter", start=start, step=step))
        return numbers if dtype is None else numbers.map(lambda x: x.cast(dtype))

    @staticmethod
    def random(
        seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None
    ) -> Dataset:
        """Random integers of 32 bits without end. Every pass draws others if ``rerandomize_each_iteration`` is true, or if neither it nor a
        seed is given; with a seed alone every pass repeats the first one, as upstream.
        """
        rerandomize_each_iteration = _rerandomized(seed, rerandomize_each_iteration)
        return Dataset(_drawn(Graph.source("random", seed=_seed(seed, rerandomize_each_iteration)), rerandomize_each_iteration))

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """One element: these arrays, nested as they are."""
        scope = scope_of(tensors)
        if scope is not None:
            return Dataset(applied(scope, _tensor.stacked(tensors)))
        described, data = constants(tensors)
        return Dataset(Graph.tensors(described, data))

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """The slices of arrays along their common leading dimension."""
        scope = scope_of(tensors)
        if scope is not None:
            return Dataset(applied(scope, _tensor.stacked(tensors)).then("unbatch"))
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
        """What a function of Python yields, which is called again for every pass, with ``args``.

        ``output_signature`` nests specs as elements are nested; ``output_types`` and ``output_shapes`` are the older way to say
        it. It runs where the pipeline does, which must be a process of Python: here, or on workers of ``ms.local``; there by a
        copy of what it refers to.

        Raises:
            TypeError: It is no function, or nothing says what it yields.
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
        """The paths that a pattern matches, shuffled again every pass unless ``shuffle`` is false."""
        listed = [file_pattern] if isinstance(file_pattern, str | os.PathLike) else file_pattern
        patterns = [path_of(pattern) for pattern in listed]
        if not patterns:
            raise ValueError("list_files needs a pattern")

        def files(pattern: str) -> Graph:
            return Graph.source("files", pattern=pattern, shuffle=shuffle is not False, seed=None if shuffle is False else seed_of(seed))

        graph = files(patterns[0])
        for pattern in patterns[1:]:
            graph = graph.concatenate(files(pattern))
        return Dataset(graph)

    @staticmethod
    def load(path: str | os.PathLike[str], element_spec: Any, name: str | None = None) -> Dataset:
        """The elements that were saved in a directory."""
        return Dataset(Graph.load(path_of(path), plain(element_spec)))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Tuples, or dicts, of one element of each dataset, nested as the datasets are."""
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
        """Elements of datasets drawn at random, in proportion to weights. Every pass draws otherwise if ``rerandomize_each_iteration`` is
        true, or if neither it nor a seed is given; with a seed alone every pass repeats the first one, as upstream.
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
        """Elements of datasets in the order that ``choice_dataset`` says, a dataset of indices."""
        graphs = [dataset._graph for dataset in datasets]
        choices = choice_dataset if choice_dataset.element_spec.dtype == "int64" else choice_dataset.map(_as_int64)
        return Dataset(Graph.choose(choices._graph, graphs, stop_on_empty_dataset))

    # What is known.

    @property
    def element_spec(self) -> Any:
        """What elements are: specs, nested as elements."""
        return dressed(self._graph.spec)

    def cardinality(self) -> int:
        """How many elements there are, ``INFINITE_CARDINALITY`` or ``UNKNOWN_CARDINALITY``."""
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
        """The dataset drawn as text."""
        return self._graph.explain()

    def __reduce__(self) -> tuple[Any, ...]:
        # As a plain dataset, whichever class built it: what is kept is its graph.
        return (_unpickled, (self._graph.to_bytes(), self._reading, self._output, self._options))

    # Elements.

    def __iter__(self) -> Elements:
        return Elements.lazy(self._open, self)

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

    def as_numpy_iterator(self) -> Elements:
        """The elements as numpy arrays and scalars."""
        return iter(self if self._output == "numpy" else self.with_output("numpy"))

    @property
    def _task_id(self) -> int:
        """The number that stands for a seed where none is given. It is drawn late, so that few datasets touch the program's generator."""
        if not self._task:
            self._task.append(random.getrandbits(63))
        return self._task[0]

    def with_output(self, output: str) -> Dataset:
        """The same elements as ``"numpy"`` arrays, or as tensors of ``"torch"`` or ``"jax"`` over the same memory.

        Passes are counted together, so that a loop may ask for it again every epoch.
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
        return self._executed.run(number, _threads(), self._task_id if task_id is None else task_id, take)

    def _on_demand(self, number: int) -> Elements:
        """One pass, of which each element is computed here, and only while it is waited for. Nothing in it draws but code of Python."""
        return self._executed.run(number, _threads(), 0, taker(self._output), True)

    def get_single_element(self, name: str | None = None) -> Any:
        """The only element.

        Raises:
            InvalidArgumentError: There are none, or several.
        """
        found = list(self.take(2))
        if len(found) != 1:
            raise InvalidArgumentError(f"the dataset has {'no element' if not found else 'several elements'}, not one")
        return found[0]

    def reduce(self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: str | None = None) -> Any:
        """What a function of Python leaves of a state after all elements. It runs here, at once."""
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
        """What a function makes of the dataset."""
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
        """What a function makes of each element.

        The function is called once, with tensors that have no value yet, to find out what it computes.
        """
        graph = applied(self._graph, called(map_func, self._graph))
        return self._scheduled(graph, num_parallel_calls, deterministic)

    def map_python(
        self,
        map_func: Callable[..., Any] | str,
        *,
        element_spec: Any = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        limits: Limits | None = None,
    ) -> Dataset:
        """What any code of Python makes of each element: a function, or the name ``module:function`` of one that workers have.

        On workers it runs in processes of the user's interpreter, at most so many as there are calls at once, within ``limits``;
        what comes behind ``distribute`` runs here. What it yields is found by calling it here with the first element, unless
        ``element_spec`` says it.
        """
        from ._code import packed, unpacked
        from ._worker import described

        code = packed(map_func, limits=limits)
        spec = described(self._first(unpacked(code))) if element_spec is None else plain(element_spec)
        return self._scheduled(self._graph.map_python(spec, code), num_parallel_calls, deterministic)

    def flat_map_python(
        self,
        map_func: Callable[..., Any] | str,
        *,
        element_spec: Any = None,
        limits: Limits | None = None,
    ) -> Dataset:
        """All that iterables yield, one after the other, which any code of Python makes of the elements: as in ``map_python``.

        On workers one process reads an iterable to its end. Should it be killed before that has yielded anything, the element is
        begun again; later its death is an error, since what was yielded cannot be told from what another one would yield.
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

    def _scheduled(self, graph: Graph, threads: int | None, deterministic: bool | None) -> Dataset:
        if threads is not None and graph is not self._graph:
            graph = graph.parallel(_tuned(threads))
            if deterministic is not None:
                graph = graph.in_order(deterministic)
        return self._then(graph)

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements for which a function yields true."""
        return self._then(self._graph.filter_expr(self._expression(predicate)))

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements before the first one for which a function yields false."""
        return self._then(self._graph.take_while_expr(self._expression(predicate)))

    def _expression(self, function: Callable[..., Any]) -> Any:
        return _tensor.convert_to_tensor(called(function, self._graph))._expr

    def flat_map(self, map_func: Callable[..., Dataset], name: str | None = None) -> Dataset:
        """The datasets that a function makes of the elements, one after the other."""
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
        """The datasets that a function makes of the elements, so many of them by turns."""
        length = _threads() if cycle_length is None or cycle_length == AUTOTUNE else whole(cycle_length, "cycle_length")
        block = 1 if block_length is None else whole(block_length, "block_length")
        if not block:
            raise InvalidArgumentError("block_length=0: a turn has at least one element")
        graph = self._graph.interleave(length, block, _body(map_func))
        return self._scheduled(graph, num_parallel_calls, deterministic)

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """So many consecutive elements stacked along a new leading dimension."""
        return self._then(self._graph.then("batch", size=whole(batch_size, "batch_size"), drop_remainder=bool(drop_remainder)))

    def unbatch(self, name: str | None = None) -> Dataset:
        """The rows of every element."""
        return self._then(self._graph.then("unbatch"))

    def rebatch(self, batch_size: int | Sequence[int], drop_remainder: bool = False, name: str | None = None) -> Dataset:
        """The rows of batches, cut into batches of this size, or of these sizes by turns."""
        sizes = [batch_size] if isinstance(batch_size, int | np.integer) else list(batch_size)
        return self._then(self._graph.then("rebatch", sizes=[whole(size, "batch_size") for size in sizes], drop_remainder=bool(drop_remainder)))

    def ragged_batch(self, batch_size: int, drop_remainder: bool = False, name: str | None = None) -> Dataset:
        """So many consecutive elements; tensors whose shapes vary become ragged ones."""
        return self._then(self._graph.then("ragged_batch", size=whole(batch_size, "batch_size"), drop_remainder=bool(drop_remainder)))

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """So many consecutive elements padded to one shape: the one given, ``None`` or -1 to the longest, or the longest."""
        shapes = shapes_of(padded_shapes, self.element_spec)
        values = values_of(padding_values, self.element_spec)
        return self._then(self._graph.then("padded_batch", size=whole(batch_size, "batch_size"), shapes=shapes, values=values, drop_remainder=bool(drop_remainder)))

    def shuffle(
        self,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Draws from a buffer of elements: again every pass, unless ``reshuffle_each_iteration`` is false. Then all passes of what is made of
        the dataset draw alike, so that ``take`` and ``skip`` divide it.
        """
        size = whole(buffer_size, "buffer_size")
        return self._then(_drawn(self._graph.then("shuffle", buffer=size, seed=_seed(seed, reshuffle_each_iteration)), reshuffle_each_iteration))

    def repeat(self, count: int | None = None, name: str | None = None) -> Dataset:
        """The dataset so many times over; without end for ``None`` or -1."""
        return self._then(self._graph.then("repeat", count=None if count is None or count < 0 else count))

    def take(self, count: int, name: str | None = None) -> Dataset:
        """The first elements; all for -1."""
        return self._then(self._graph.then("take", count=count)) if count >= 0 else self

    def skip(self, count: int, name: str | None = None) -> Dataset:
        """All but the first elements; none for -1."""
        return self._then(self._graph.then("skip", count=count) if count >= 0 else self._graph.then("take", count=0))

    def shard(self, num_shards: int, index: int, name: str | None = None) -> Dataset:
        """One shard of so many. ``service.SHARD_HINT`` for the number: as the workers are."""
        if num_shards == -1:
            return self._then(self._graph.then("shard", count=None, index=0, require_non_empty=False))
        return self._then(self._graph.then("shard", count=whole(num_shards, "num_shards"), index=whole(index, "index"), require_non_empty=False))

    def enumerate(self, start: int = 0, name: str | None = None) -> Dataset:
        """Tuples of a number and the element."""
        return self._then(self._graph.then("enumerate", start=start))

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """The elements of this dataset, and then those of another.

        Raises:
            TypeError: They are of different types.
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"concatenate takes another dataset, not {dataset!r}")
        try:
            return self._then(self._graph.concatenate(dataset._graph))
        except InvalidArgumentError as error:
            both = f"{self.element_spec} and {dataset.element_spec}"
            raise TypeError(f"Two datasets to concatenate have different types: {both}") from error

    def prefetch(self, buffer_size: int = AUTOTUNE, name: str | None = None) -> Dataset:
        """A buffer that is filled ahead."""
        return self._then(self._graph.then("prefetch", buffer=whole(_tuned(buffer_size), "buffer_size")))

    def cache(self, filename: str | os.PathLike[str] = "", name: str | None = None) -> Dataset:
        """Yields the elements of the first complete pass in every pass: from memory, or from a directory.

        Memory is held as long as this dataset, or one made of it, is. A pass that is left before its end keeps nothing.
        """
        path = path_of(filename)
        kept = self._graph.then("cache", path=path, bytes_max=0) if path else self._graph.then("cache", path=None)
        return self._then(kept)

    def snapshot(self, path: str | os.PathLike[str], compression: str = "AUTO", name: str | None = None) -> Dataset:
        """The elements as they were when first read, from files. ``compression``: ``AUTO``, ``LZ4``, ``GZIP`` or ``NONE``."""
        packing = {"AUTO": "lz4", "SNAPPY": "lz4"}.get(compression, str(compression).lower())
        return self._then(self._graph.snapshot(path_of(path), packing))

    def unique(self, name: str | None = None) -> Dataset:
        """The first of equal elements."""
        return self._then(self._graph.then("unique"))

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """Leaves out elements that fail."""
        return self._then(self._graph.then("ignore_errors", log_warning=bool(log_warning)))

    def on_error(self, policy: str) -> Dataset:
        """What becomes of elements that fail up to here: ``raise``, ``skip``, ``retry:n``, or ``retry:n,skip``."""
        words = policy.split(",")
        retries = next((int(word.removeprefix("retry:")) for word in words if word.startswith("retry:")), 0)
        if not all(word in ("raise", "skip") or word.startswith("retry:") for word in words):
            raise ValueError(f"on_error {policy!r}: use raise, skip, retry:n, or retry:n,skip")
        return self._then(self._graph.on_error(retries, "skip" in words))

    def assert_cardinality(self, expected_cardinality: int) -> Dataset:
        """States how many elements there are; that there are others is an error."""
        count = None if expected_cardinality == INFINITE_CARDINALITY else expected_cardinality
        return self._then(self._graph.then("assert_cardinality", count=count))

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """Says how everything up to here is executed."""
        return self._made(optioned(self._graph, options), self._options.merge(options))

    def options(self) -> Options:
        """How it is executed. What is changed in them holds for this dataset and all that are made of it from then on."""
        return self._options

    @property
    def _executed(self) -> Graph:
        # What was changed in the options themselves is in no graph yet.
        return self._graph if self._options == Options() else optioned(self._graph, self._options)

    def split_size(self, positions: int) -> Dataset:
        """Deals sources out to workers in splits of so many positions."""
        return self._then(self._graph.split_size(whole(positions, "positions")))


def _body(function: Callable[..., Dataset]) -> Callable[[Graph], Graph]:
    def body(graph: Graph) -> Graph:
        made = function(*arguments(graph))
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
