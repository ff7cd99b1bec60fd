"""Tests of TensorFlow datasets that are registered with a service, and read by their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import millstream as ms

tf = pytest.importorskip("tensorflow")

ShardingPolicy = ms.service.ShardingPolicy


@pytest.fixture(scope="module")
def service() -> Iterator[ms.LocalService]:
    """Starts a service with two workers in this process."""
    with ms.local(workers=2, inline=True) as running:
        yield running


def numbers(dataset: Any) -> list[int]:
    """Returns the elements in ascending order."""
    return sorted(int(element) for element in dataset)


def test_a_registered_dataset_is_read_by_its_id(service: ms.LocalService) -> None:
    dataset = tf.data.Dataset.range(20).map(lambda x: x * x)
    known_as = ms.tf.register_dataset(service, dataset)
    assert known_as.dtype == tf.string and known_as.shape == ()
    # The id travels to other programs in any of these forms.
    for form in (known_as, known_as.numpy(), known_as.numpy().decode(), int(known_as.numpy())):
        read = ms.tf.from_dataset_id("distributed_epoch", service, form)
        assert isinstance(read, tf.data.Dataset) and numbers(read) == numbers(dataset)


def test_an_explicit_id_is_kept(service: ms.LocalService) -> None:
    assert ms.tf.register_dataset(service, tf.data.Dataset.range(5), dataset_id="mine").numpy() == b"mine"
    for _ in range(2):
        # An equal dataset may be registered again.
        ms.tf.register_dataset(service, tf.data.Dataset.range(5), dataset_id="mine")
    assert numbers(ms.tf.from_dataset_id("distributed_epoch", service, "mine")) == list(range(5))
    # As upstream, a dataset of the same structure leaves the first one in place.
    assert ms.tf.register_dataset(service, tf.data.Dataset.range(1, 6), dataset_id="mine").numpy() == b"mine"
    assert numbers(ms.tf.from_dataset_id("distributed_epoch", service, "mine")) == list(range(5))
    for other in (tf.data.Dataset.range(6), tf.data.Dataset.range(5).map(lambda x: (x, x)), tf.data.Dataset.range(5).repeat()):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"mine is registered already"):
            ms.tf.register_dataset(service, other, dataset_id="mine")


def test_equal_datasets_have_one_id(service: ms.LocalService) -> None:
    ranges = [tf.data.Dataset.range(stop).map(lambda x: x + 1) for stop in (5, 5, 6)]
    first, second, third = (ms.tf.register_dataset(service, dataset).numpy() for dataset in ranges)
    assert first == second != third
    assert ms.tf.register_dataset(service, ranges[0], num_shards=3).numpy() != first
    assert ms.tf.register_dataset(service, ranges[0], compression=None).numpy() != first


def test_the_spec_of_every_kind_travels(service: ms.LocalService) -> None:
    rows = tf.ragged.constant([[1, 2], [], [3]], dtype=tf.int32)
    sparse = tf.sparse.from_dense([[0, 1], [2, 0], [0, 3]])
    dense = (tf.constant(["a", "späť", ""]), tf.cast([1.5, 2, 3], tf.bfloat16))
    dataset = tf.data.Dataset.from_tensor_slices({"ragged": rows, "sparse": sparse, "dense": dense}).batch(2)
    known_as = ms.tf.register_dataset(service, dataset)
    for policy in (ShardingPolicy.OFF, ShardingPolicy.DYNAMIC):
        read = ms.tf.from_dataset_id(policy, service, known_as)
        assert read.element_spec == dataset.element_spec
        found = next(iter(read))
        assert isinstance(found["ragged"], tf.RaggedTensor) and isinstance(found["sparse"], tf.SparseTensor)


def test_each_policy_reads_its_part(service: ms.LocalService) -> None:
    known_as = ms.tf.register_dataset(service, tf.data.Dataset.range(10))
    assert numbers(ms.tf.from_dataset_id(ShardingPolicy.OFF, service, known_as)) == sorted(2 * [*range(10)])
    assert numbers(ms.tf.from_dataset_id(ShardingPolicy.DYNAMIC, service, known_as)) == list(range(10))
    for policy in (ShardingPolicy.FILE, ShardingPolicy.DATA, ShardingPolicy.FILE_OR_DATA, ShardingPolicy.HINT):
        with pytest.raises(tf.errors.NotFoundError, match="worker addresses"):
            list(ms.tf.from_dataset_id(policy, service, known_as))


def test_a_job_name_belongs_to_its_dataset(service: ms.LocalService) -> None:
    names = [ms.tf.register_dataset(service, tf.data.Dataset.range(*limits)) for limits in ((20,), (20, 40))]
    readers = [ms.tf.from_dataset_id("distributed_epoch", service, name, job_name="shared") for name in (*names, *names)]
    iterators = [iter(reader) for reader in readers]
    seen = []
    while iterators:
        iterator = iterators.pop(0)
        if (element := next(iterator, None)) is not None:
            seen.append(int(element))
            iterators.append(iterator)
    assert sorted(seen) == list(range(40))
    with pytest.raises(tf.errors.InvalidArgumentError, match="job"):
        list(ms.tf.from_dataset_id("parallel_epochs", service, names[0], job_name="shared"))


def test_wrong_ids_and_specs_are_refused_when_built(service: ms.LocalService) -> None:
    ms.tf.register_dataset(service, tf.data.Dataset.range(3), dataset_id="three")
    for mistaken, spec in ((tf.errors.NotFoundError, tf.TensorSpec((), tf.int64)), (ValueError, None)):
        # TensorFlow fails with the same errors.
        with pytest.raises(mistaken, match="nobody"):
            ms.tf.from_dataset_id("parallel_epochs", service, "nobody", spec)
    with pytest.raises(tf.errors.InvalidArgumentError, match="three: expected elements .*float32.*found elements .*int64"):
        ms.tf.from_dataset_id("parallel_epochs", service, "three", tf.TensorSpec((), tf.float32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="three: expected elements"):
        ms.tf.from_dataset_id("parallel_epochs", service, "three", {"x": tf.TensorSpec((), tf.int64)})
    # A spec that leaves sizes open fits.
    read = ms.tf.from_dataset_id("distributed_epoch", service, "three", tf.TensorSpec(None, tf.int64))
    assert read.element_spec == tf.TensorSpec(None, tf.int64) and numbers(read) == [0, 1, 2]
    ms.service.register_dataset(service, ms.Dataset.range(3), dataset_id="native")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"ms\.service\.from_dataset_id"):
        ms.tf.from_dataset_id("parallel_epochs", service, "native")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"expected a tf\.data\.Dataset.*ms\.service"):
        ms.tf.register_dataset(service, ms.Dataset.range(3))


def test_the_number_of_elements_is_that_of_upstream(service: ms.LocalService) -> None:
    upstream = tf.data.experimental.service
    dispatcher = upstream.DispatchServer()
    for dataset in (tf.data.Dataset.range(0), tf.data.Dataset.range(3), tf.data.Dataset.range(3).repeat()):
        theirs, ours = upstream.register_dataset(dispatcher.target, dataset), ms.tf.register_dataset(service, dataset)
        for policy in ShardingPolicy:
            expected = upstream.from_dataset_id(upstream.ShardingPolicy(int(policy)), dispatcher.target, theirs, dataset.element_spec)
            found = ms.tf.from_dataset_id(policy, service, ours)
            assert int(found.cardinality()) == int(expected.cardinality()), (policy, int(dataset.cardinality()))


def test_registration_in_a_function_is_of_its_argument(service: ms.LocalService) -> None:
    @tf.function
    def registered(count: Any) -> Any:
        return ms.tf.register_dataset(service, tf.data.Dataset.range(count))

    @tf.function
    def total(known_as: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for x in ms.tf.from_dataset_id("distributed_epoch", service, known_as, tf.TensorSpec((), tf.int64)):
            found += x
        return found

    names = [registered(tf.constant(count, tf.int64)) for count in (4, 5)]
    assert names[0].numpy() != names[1].numpy()
    assert [int(total(name)) for name in names] == [6, 10]
    with pytest.raises(ValueError, match="element_spec"):
        tf.function(lambda name: ms.tf.from_dataset_id("distributed_epoch", service, name).cardinality())(names[0])


#: Mistakes, as calls of TensorFlow's module or of this package's module.
MISTAKES: dict[str, Callable[[Any, str], Any]] = {
    "an unknown mode": lambda module, _: module.distribute("sideways", "localhost:1"),
    "an unknown compression": lambda module, _: module.distribute("parallel_epochs", "localhost:1", compression="zip"),
    "an unknown compression of a registration": lambda module, at: module.register_dataset(at, tf.data.Dataset.range(1), compression="zip"),
    "no address": lambda module, _: distributed(module, ""),
    "an address that is no text": lambda module, _: distributed(module, 5050),
    "an address with two schemes": lambda module, _: distributed(module, "grpc://a://b:1"),
    "an unknown scheme": lambda module, at: distributed(module, f"sea://{at.partition('://')[2]}"),
    "a job name that is no text": lambda module, at: distributed(module, at, job_name=3),
    "an empty job name": lambda module, at: distributed(module, at, job_name=""),
    "consumers without a job name": lambda module, at: distributed(module, at, consumer_index=0, num_consumers=2),
    "an unknown id": lambda module, at: module.from_dataset_id("parallel_epochs", at, "nobody", tf.TensorSpec((), tf.int64)),
    "an unknown id without a spec": lambda module, at: module.from_dataset_id("parallel_epochs", at, "nobody"),
    "an empty job name of an id": lambda module, at: module.from_dataset_id("parallel_epochs", at, "nobody", job_name=""),
    "an id of other elements": lambda module, at: [
        module.register_dataset(at, dataset, dataset_id="taken") for dataset in (tf.data.Dataset.range(1), tf.data.Dataset.from_tensors("a"))
    ],
    "an id of another size": lambda module, at: [
        module.register_dataset(at, tf.data.Dataset.range(size), dataset_id="sized") for size in (1, 2)
    ],
}


def distributed(module: Any, service: Any, **how: Any) -> Any:
    """Returns a small distributed dataset."""
    return tf.data.Dataset.range(1).apply(module.distribute("parallel_epochs", service, **how))


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """Starts TensorFlow's own dispatcher."""
    dispatcher = tf.data.experimental.service.DispatchServer()
    yield dispatcher.target


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_raise_what_tensorflow_raises(name: str, service: ms.LocalService, upstream: str) -> None:
    with pytest.raises((ValueError, tf.errors.OpError)) as theirs:
        MISTAKES[name](tf.data.experimental.service, upstream)
    with pytest.raises(theirs.type):
        MISTAKES[name](ms.tf, service.target)
