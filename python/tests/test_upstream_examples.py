"""Tests with examples of TensorFlow's documentation, in which only the import is changed: ``from millstream import compat as tf``.

The examples print the output that TensorFlow's documentation shows, with two differences: elements are numpy arrays instead of ``tf.Tensor``, and
text is ``str`` instead of ``bytes``. The comparison removes both differences from the expected output, and uses numpy's old print format.

The following examples are missing, each for a reason:

- ``tf.py_function``, ``tf.numpy_function`` with AutoGraph: ``EXAMPLES`` uses ``Dataset.map_python`` instead
- ``tf.fill`` with a size from an element: native functions cannot turn values into shapes, and ``map_python`` is used instead
- ``snapshot`` with ``reader_func`` and ``shard_func``: Python snapshots do not have these arguments
- ``tf.io.serialize_tensor``, ``to_variant``: parts of TensorFlow's runtime
- ``SqlDataset``, ``TFRecordWriter``, ``StatsAggregator``, ``IteratorSpec``: the examples of their docstrings show them
- the ``ClusterResolver`` classes: ``ms.rank`` finds the rank of a trainer
- ``TPUStrategy``: Millstream does not distribute to TPUs
- loops of the tutorial that repeat other examples, and its ``TFRecordDataset`` over files that do not exist
- ``unbatch`` and ``padded_batch`` of elements of unknown rank (only ``output_types``): the examples use ``output_signature`` instead
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millstream import compat as tf

#: The code of each example with its expected output. Expressions print their values.
EXAMPLES: dict[str, tuple[str, str]] = {
    "element_spec": (
        "dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3])\ndataset.element_spec",
        "TensorSpec(shape=(), dtype=tf.int32, name=None)",
    ),
    "apply": (
        """
dataset = tf.data.Dataset.range(100)
def dataset_fn(ds):
    return ds.filter(lambda x: x < 5)
dataset = dataset.apply(dataset_fn)
list(dataset.as_numpy_iterator())
""",
        "[0, 1, 2, 3, 4]",
    ),
    "as_numpy_iterator": (
        """
dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3])
for element in dataset:
    print(element)
for element in dataset.as_numpy_iterator():
    print(element)
print(list(dataset.as_numpy_iterator()))
dataset = tf.data.Dataset.from_tensor_slices({'a': ([1, 2], [3, 4]),
                                              'b': [5, 6]})
list(dataset.as_numpy_iterator()) == [{'a': (1, 3), 'b': 5},
                                      {'a': (2, 4), 'b': 6}]
""",
        """
tf.Tensor(1, shape=(), dtype=int32)
tf.Tensor(2, shape=(), dtype=int32)
tf.Tensor(3, shape=(), dtype=int32)
1
2
3
[1, 2, 3]
True
""",
    ),
    "batch": (
        """
dataset = tf.data.Dataset.range(8)
dataset = dataset.batch(3)
list(dataset.as_numpy_iterator())
dataset = tf.data.Dataset.range(8)
dataset = dataset.batch(3, drop_remainder=True)
list(dataset.as_numpy_iterator())
""",
        "[array([0, 1, 2]), array([3, 4, 5]), array([6, 7])] [array([0, 1, 2]), array([3, 4, 5])]",
    ),
    "cache": (
        """
dataset = tf.data.Dataset.range(5)
dataset = dataset.map(lambda x: x**2)
dataset = dataset.cache()
list(dataset.as_numpy_iterator())
list(dataset.as_numpy_iterator())
dataset = tf.data.Dataset.range(5)
dataset = dataset.cache(PATH)
list(dataset.as_numpy_iterator())
""",
        "[0, 1, 4, 9, 16] [0, 1, 4, 9, 16] [0, 1, 2, 3, 4]",
    ),
    "cardinality": (
        """
dataset = tf.data.Dataset.range(42)
print(dataset.cardinality())
dataset = dataset.repeat()
cardinality = dataset.cardinality()
print((cardinality == tf.data.INFINITE_CARDINALITY))
dataset = dataset.filter(lambda x: True)
cardinality = dataset.cardinality()
print((cardinality == tf.data.UNKNOWN_CARDINALITY))
""",
        "42 True True",
    ),
    "concatenate": (
        """
a = tf.data.Dataset.range(1, 4)
b = tf.data.Dataset.range(4, 8)
ds = a.concatenate(b)
list(ds.as_numpy_iterator())
c = tf.data.Dataset.zip((a, b))
try:
    a.concatenate(c)
except TypeError as error:
    print(str(error)[:48])
d = tf.data.Dataset.from_tensor_slices(["a", "b", "c"])
try:
    a.concatenate(d)
except TypeError as error:
    print(str(error)[:48])
""",
        "[1, 2, 3, 4, 5, 6, 7] Two datasets to concatenate have different types Two datasets to concatenate have different types",
    ),
    "enumerate": (
        """
dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3])
dataset = dataset.enumerate(start=5)
for element in dataset.as_numpy_iterator():
    print(element)
dataset = tf.data.Dataset.from_tensor_slices([(7, 8), (9, 10)])
dataset = dataset.enumerate()
for element in dataset.as_numpy_iterator():
    print(element)
""",
        "(5, 1) (6, 2) (7, 3) (0, array([7, 8], dtype=int32)) (1, array([ 9, 10], dtype=int32))",
    ),
    "filter": (
        """
dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3])
dataset = dataset.filter(lambda x: x < 3)
list(dataset.as_numpy_iterator())
def filter_fn(x):
    return tf.math.equal(x, 1)
dataset = dataset.filter(filter_fn)
list(dataset.as_numpy_iterator())
""",
        "[1, 2] [1]",
    ),
    "flat_map": (
        """
dataset = tf.data.Dataset.from_tensor_slices(
                [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
dataset = dataset.flat_map(lambda x: Dataset.from_tensor_slices(x))
list(dataset.as_numpy_iterator())
""",
        "[1, 2, 3, 4, 5, 6, 7, 8, 9]",
    ),
    "from_generator": (
        """
def gen():
    ragged_tensor = tf.ragged.constant([[1, 2], [3]])
    yield 42, ragged_tensor
dataset = tf.data.Dataset.from_generator(
     gen,
     output_signature=(
         tf.TensorSpec(shape=(), dtype=tf.int32),
         tf.RaggedTensorSpec(shape=(2, None), dtype=tf.int32)))
list(dataset.take(1))
""",
        "[(42, ms.Ragged([[1, 2], [3]]))]",
    ),
    "from_tensor_slices": (
        """
dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3])
list(dataset.as_numpy_iterator())
dataset = tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]])
list(dataset.as_numpy_iterator())
dataset = tf.data.Dataset.from_tensor_slices(([1, 2], [3, 4], [5, 6]))
list(dataset.as_numpy_iterator())
dataset = tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [3, 4]})
list(dataset.as_numpy_iterator()) == [{'a': 1, 'b': 3},
                                      {'a': 2, 'b': 4}]
""",
        """
[1, 2, 3]
[array([1, 2], dtype=int32), array([3, 4], dtype=int32)]
[(1, 3, 5), (2, 4, 6)]
True
""",
    ),
    "from_tensor_slices of tensors": (
        """
features = tf.constant([[1, 3], [2, 1], [3, 3]])
labels = tf.constant(['A', 'B', 'A'])
dataset = Dataset.from_tensor_slices((features, labels))
features_dataset = Dataset.from_tensor_slices(features)
labels_dataset = Dataset.from_tensor_slices(labels)
dataset = Dataset.zip((features_dataset, labels_dataset))
batched_features = tf.constant([[[1, 3], [2, 3]],
                                [[2, 1], [1, 2]],
                                [[3, 3], [3, 2]]], shape=(3, 2, 2))
batched_labels = tf.constant([['A', 'A'],
                              ['B', 'B'],
                              ['A', 'B']], shape=(3, 2, 1))
dataset = Dataset.from_tensor_slices((batched_features, batched_labels))
for element in dataset.as_numpy_iterator():
    print(element)
""",
        """
(array([[1, 3],
       [2, 3]], dtype=int32), array([[b'A'],
       [b'A']], dtype=object))
(array([[2, 1],
       [1, 2]], dtype=int32), array([[b'B'],
       [b'B']], dtype=object))
(array([[3, 3],
       [3, 2]], dtype=int32), array([[b'A'],
       [b'B']], dtype=object))
""",
    ),
    "from_tensors": (
        """
dataset = tf.data.Dataset.from_tensors([1, 2, 3])
list(dataset.as_numpy_iterator())
dataset = tf.data.Dataset.from_tensors(([1, 2, 3], 'A'))
list(dataset.as_numpy_iterator())
example = tf.constant([1,2,3])
dataset = tf.data.Dataset.from_tensors(example).repeat(2)
list(dataset.as_numpy_iterator())
""",
        """
[array([1, 2, 3], dtype=int32)]
[(array([1, 2, 3], dtype=int32), b'A')]
[array([1, 2, 3], dtype=int32), array([1, 2, 3], dtype=int32)]
""",
    ),
    "interleave": (
        """
filenames = FILES
dataset = tf.data.Dataset.from_tensor_slices(filenames)
def parse_fn(filename):
    return tf.data.Dataset.range(10)
dataset = dataset.interleave(lambda x:
    tf.data.TextLineDataset(x).flat_map(parse_fn),
    cycle_length=4, block_length=16)
dataset = Dataset.range(1, 6)
dataset = dataset.interleave(
    lambda x: Dataset.from_tensors(x).repeat(6),
    cycle_length=2, block_length=4)
list(dataset.as_numpy_iterator())
dataset = tf.data.Dataset.from_tensor_slices(filenames)
dataset = dataset.interleave(lambda x: tf.data.TFRecordDataset(x),
    cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE,
    deterministic=False)
""",
        """
[1, 1, 1, 1,
 2, 2, 2, 2,
 1, 1,
 2, 2,
 3, 3, 3, 3,
 4, 4, 4, 4,
 3, 3,
 4, 4,
 5, 5, 5, 5,
 5, 5]
""",
    ),
    "map": (
        """
dataset = Dataset.range(1, 6)
dataset = dataset.map(lambda x: x + 1)
list(dataset.as_numpy_iterator())
elements = [(1, "foo"), (2, "bar"), (3, "baz")]
dataset = tf.data.Dataset.from_generator(
    lambda: elements, (tf.int32, tf.string))
result = dataset.map(lambda x_int, y_str: x_int)
list(result.as_numpy_iterator())
elements =  ([{"a": 1, "b": "foo"},
              {"a": 2, "b": "bar"},
              {"a": 3, "b": "baz"}])
dataset = tf.data.Dataset.from_generator(
    lambda: elements, {"a": tf.int32, "b": tf.string})
result = dataset.map(lambda d: str(d["a"]) + d["b"])
dataset = Dataset.range(1, 6)
dataset = dataset.map(lambda x: x + 1,
                      num_parallel_calls=tf.data.AUTOTUNE,
                      deterministic=False)
""",
        "[2, 3, 4, 5, 6] [1, 2, 3]",
    ),
    "map to structures": (
        """
dataset = tf.data.Dataset.range(3)
def g(x):
    return tf.constant(37.0), tf.constant(["Foo", "Bar", "Baz"])
result = dataset.map(g)
result.element_spec
def h(x):
    return 37.0, ["Foo", "Bar"], np.array([1.0, 2.0], dtype=np.float64)
result = dataset.map(h)
result.element_spec
def i(x):
    return (37.0, [42, 16]), "foo"
result = dataset.map(i)
result.element_spec
""",
        """
(TensorSpec(shape=(), dtype=tf.float32, name=None), TensorSpec(shape=(3,), dtype=tf.string, name=None))
(TensorSpec(shape=(), dtype=tf.float32, name=None), TensorSpec(shape=(2,), dtype=tf.string, name=None),
 TensorSpec(shape=(2,), dtype=tf.float64, name=None))
((TensorSpec(shape=(), dtype=tf.float32, name=None),
  TensorSpec(shape=(2,), dtype=tf.int32, name=None)),
 TensorSpec(shape=(), dtype=tf.string, name=None))
""",
    ),
    "map of any Python, by map_python": (
        """
d = tf.data.Dataset.from_tensor_slices(['hello', 'world'])
def upper_case_fn(t):
    return t.upper()
d = d.map_python(upper_case_fn)
list(d.as_numpy_iterator())
""",
        "[b'HELLO', b'WORLD']",
    ),
    "padded_batch, with map_python for tf.fill": (
        """
A = (tf.data.Dataset
     .range(1, 5, output_type=tf.int32)
     .map_python(lambda x: np.full([x], x), element_spec=tf.TensorSpec([None], tf.int32)))
B = A.padded_batch(2)
for element in B.as_numpy_iterator():
    print(element)
C = A.padded_batch(2, padded_shapes=5)
for element in C.as_numpy_iterator():
    print(element)
D = A.padded_batch(2, padded_shapes=5, padding_values=-1)
for element in D.as_numpy_iterator():
    print(element)
elements = [([1, 2, 3], [10]),
            ([4, 5], [11, 12])]
dataset = tf.data.Dataset.from_generator(
    lambda: iter(elements), output_signature=(tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int32)))
dataset = dataset.padded_batch(2,
    padded_shapes=([4], [None]),
    padding_values=(-1, 100))
list(dataset.as_numpy_iterator())
E = tf.data.Dataset.zip((A, A)).padded_batch(2, padding_values=-1)
for element in E.as_numpy_iterator():
    print(element)
""",
        """
[[1 0]
 [2 2]]
[[3 3 3 0]
 [4 4 4 4]]
[[1 0 0 0 0]
 [2 2 0 0 0]]
[[3 3 3 0 0]
 [4 4 4 4 0]]
[[ 1 -1 -1 -1 -1]
 [ 2  2 -1 -1 -1]]
[[ 3  3  3 -1 -1]
 [ 4  4  4  4 -1]]
[(array([[ 1,  2,  3, -1], [ 4,  5, -1, -1]], dtype=int32),
  array([[ 10, 100], [ 11,  12]], dtype=int32))]
(array([[ 1, -1],
       [ 2,  2]], dtype=int32), array([[ 1, -1],
       [ 2,  2]], dtype=int32))
(array([[ 3,  3,  3, -1],
       [ 4,  4,  4,  4]], dtype=int32), array([[ 3,  3,  3, -1],
       [ 4,  4,  4,  4]], dtype=int32))
""",
    ),
    "prefetch": (
        "dataset = tf.data.Dataset.range(3)\ndataset = dataset.prefetch(2)\nlist(dataset.as_numpy_iterator())",
        "[0, 1, 2]",
    ),
    "range": (
        """
list(Dataset.range(5).as_numpy_iterator())
list(Dataset.range(2, 5).as_numpy_iterator())
list(Dataset.range(1, 5, 2).as_numpy_iterator())
list(Dataset.range(1, 5, -2).as_numpy_iterator())
list(Dataset.range(5, 1).as_numpy_iterator())
list(Dataset.range(5, 1, -2).as_numpy_iterator())
list(Dataset.range(2, 5, output_type=tf.int32).as_numpy_iterator())
list(Dataset.range(1, 5, 2, output_type=tf.float32).as_numpy_iterator())
""",
        "[0, 1, 2, 3, 4] [2, 3, 4] [1, 3] [] [] [5, 3] [2, 3, 4] [1.0, 3.0]",
    ),
    "reduce": (
        """
tf.data.Dataset.range(5).reduce(np.int64(0), lambda x, _: x + 1)
tf.data.Dataset.range(5).reduce(np.int64(0), lambda x, y: x + y)
""",
        "5 10",
    ),
    "repeat, shard, skip, take": (
        """
dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3])
dataset = dataset.repeat(3)
list(dataset.as_numpy_iterator())
A = tf.data.Dataset.range(10)
B = A.shard(num_shards=3, index=0)
list(B.as_numpy_iterator())
C = A.shard(num_shards=3, index=1)
list(C.as_numpy_iterator())
D = A.shard(num_shards=3, index=2)
list(D.as_numpy_iterator())
dataset = tf.data.Dataset.range(10)
dataset = dataset.skip(7)
list(dataset.as_numpy_iterator())
dataset = tf.data.Dataset.range(10)
dataset = dataset.take(3)
list(dataset.as_numpy_iterator())
""",
        "[1, 2, 3, 1, 2, 3, 1, 2, 3] [0, 3, 6, 9] [1, 4, 7] [2, 5, 8] [7, 8, 9] [0, 1, 2]",
    ),
    "shuffle": (
        """
dataset = tf.data.Dataset.range(3)
dataset = dataset.shuffle(3, reshuffle_each_iteration=True)
dataset = dataset.repeat(2)
sorted(dataset.as_numpy_iterator())
d = tf.data.Dataset.from_tensor_slices([1, 2, 3])
d = d.apply(tf.data.experimental.shuffle_and_repeat(2, count=2))
sorted(elem for elem in d)
""",
        "[0, 0, 1, 1, 2, 2] [1, 1, 2, 2, 3, 3]",
    ),
    "unbatch": (
        """
elements = [ [1, 2, 3], [1, 2], [1, 2, 3, 4] ]
dataset = tf.data.Dataset.from_generator(lambda: elements, output_signature=tf.TensorSpec([None], tf.int64))
dataset = dataset.unbatch()
list(dataset.as_numpy_iterator())
""",
        "[1, 2, 3, 1, 2, 1, 2, 3, 4]",
    ),
    "unique": (
        """
dataset = tf.data.Dataset.from_tensor_slices([1, 37, 2, 37, 2, 1])
dataset = dataset.apply(tf.data.experimental.unique())
list(dataset.as_numpy_iterator())
""",
        "[1, 37, 2]",
    ),
    "window": (
        """
dataset = tf.data.Dataset.range(7).window(2)
for window in dataset:
    print(list(window.as_numpy_iterator()))
dataset = tf.data.Dataset.range(7).window(3, 2, 1, True)
for window in dataset:
    print(list(window.as_numpy_iterator()))
dataset = tf.data.Dataset.range(7).window(3, 1, 2, True)
for window in dataset:
    print(list(window.as_numpy_iterator()))
nested = ([1, 2, 3, 4], [5, 6, 7, 8])
dataset = tf.data.Dataset.from_tensor_slices(nested).window(2)
for window in dataset:
    def to_numpy(ds):
        return list(ds.as_numpy_iterator())
    print(tuple(to_numpy(component) for component in window))
dataset = tf.data.Dataset.from_tensor_slices({'a': [1, 2, 3, 4]})
dataset = dataset.window(2)
for window in dataset:
    def to_numpy(ds):
        return list(ds.as_numpy_iterator())
    print({'a': to_numpy(window['a'])})
""",
        """
[0, 1] [2, 3] [4, 5] [6]
[0, 1, 2] [2, 3, 4] [4, 5, 6]
[0, 2, 4] [1, 3, 5] [2, 4, 6]
([1, 2], [5, 6])
([3, 4], [7, 8])
{'a': [1, 2]}
{'a': [3, 4]}
""",
    ),
    "with_options": (
        """
ds = tf.data.Dataset.range(5)
ds = ds.interleave(lambda x: tf.data.Dataset.range(5),
                   cycle_length=3,
                   num_parallel_calls=3)
options = tf.data.Options()
options.experimental_deterministic = False
ds = ds.with_options(options)
sorted(ds.as_numpy_iterator())[-1]
dataset = tf.data.Dataset.range(42)
dataset.options().experimental_deterministic = False
print(dataset.options().experimental_deterministic)
dataset = tf.data.Dataset.range(42)
options = tf.data.Options()
options.experimental_deterministic = False
dataset = dataset.with_options(options)
print(dataset.options().experimental_deterministic)
options = tf.data.Options()
options.experimental_threading.private_threadpool_size = 10
dataset = dataset.with_options(options)
""",
        "4 False False",
    ),
    "zip": (
        """
a = tf.data.Dataset.range(1, 4)
b = tf.data.Dataset.range(4, 7)
ds = tf.data.Dataset.zip((a, b))
list(ds.as_numpy_iterator())
ds = tf.data.Dataset.zip((b, a))
list(ds.as_numpy_iterator())
c = tf.data.Dataset.range(7, 13).batch(2)
ds = tf.data.Dataset.zip((a, b, c))
for element in ds.as_numpy_iterator():
    print(element)
d = tf.data.Dataset.range(13, 15)
ds = tf.data.Dataset.zip((a, d))
list(ds.as_numpy_iterator())
""",
        """
[(1, 4), (2, 5), (3, 6)]
[(4, 1), (5, 2), (6, 3)]
(1, 4, array([7, 8]))
(2, 5, array([ 9, 10]))
(3, 6, array([11, 12]))
[(1, 13), (2, 14)]
""",
    ),
    "Iterator": (
        """
dataset = tf.data.Dataset.range(2)
for element in dataset:
    print(element)
dataset = tf.data.Dataset.range(2)
iterator = iter(dataset)
print(iterator.get_next())
print(iterator.get_next())
dataset = tf.data.Dataset.from_tensors(42)
iterator = iter(dataset)
iterator.element_spec
optional = iterator.get_next_as_optional()
print(optional.has_value())
print(optional.get_value())
optional = iterator.get_next_as_optional()
print(optional.has_value())
""",
        """
tf.Tensor(0, shape=(), dtype=int64)
tf.Tensor(1, shape=(), dtype=int64)
tf.Tensor(0, shape=(), dtype=int64)
tf.Tensor(1, shape=(), dtype=int64)
TensorSpec(shape=(), dtype=tf.int32, name=None)
tf.Tensor(True, shape=(), dtype=bool)
tf.Tensor(42, shape=(), dtype=int32)
tf.Tensor(False, shape=(), dtype=bool)
""",
    ),
    "service.DispatchServer": (
        """
dispatcher = tf.data.experimental.service.DispatchServer()
dispatcher_address = dispatcher.target.split("://")[1]
worker = tf.data.experimental.service.WorkerServer(tf.data.experimental.service.WorkerConfig(
    dispatcher_address=dispatcher_address))
dataset = tf.data.Dataset.range(10)
dataset = dataset.apply(tf.data.experimental.service.distribute(
    processing_mode="parallel_epochs", service=dispatcher.target))
print(list(dataset.as_numpy_iterator()))
dispatcher = tf.data.experimental.service.DispatchServer(start=False)
dispatcher.start()
""",
        "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]",
    ),
    "service.distribute": (
        """
dispatcher = tf.data.experimental.service.DispatchServer()
dispatcher_address = dispatcher.target.split("://")[1]
workers = [
    tf.data.experimental.service.WorkerServer(
        tf.data.experimental.service.WorkerConfig(
            dispatcher_address=dispatcher_address)) for _ in range(2)
]
dataset = tf.data.Dataset.range(10)
dataset = dataset.apply(tf.data.experimental.service.distribute(
    processing_mode="parallel_epochs", service=dispatcher.target))
print(sorted(list(dataset.as_numpy_iterator())))
dataset = tf.data.Dataset.range(10)
dataset = dataset.apply(tf.data.experimental.service.distribute(
    processing_mode="distributed_epoch", service=dispatcher.target))
print(sorted(list(dataset.as_numpy_iterator())))
dataset = tf.data.Dataset.range(5)
dataset = dataset.map(lambda x: x*x)
dataset = dataset.apply(
   tf.data.experimental.service.distribute("parallel_epochs",
                                           dispatcher.target))
dataset = dataset.map(lambda x: x+1)
print(sorted(list(dataset.as_numpy_iterator())))
range5_dataset = tf.data.Dataset.range(5)
dataset = range5_dataset.apply(tf.data.experimental.service.distribute(
    "distributed_epoch", dispatcher.target, job_name="my_job_name"))
for iteration in range(3):
  print(sorted(dataset))
dataset = dataset.take(1).cache().repeat()
""",
        """
[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]
[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
[1, 1, 2, 2, 5, 5, 10, 10, 17, 17]
[0, 1, 2, 3, 4] [0, 1, 2, 3, 4] [0, 1, 2, 3, 4]
""",
    ),
    "service.from_dataset_id": (
        """
dispatcher = tf.data.experimental.service.DispatchServer()
dispatcher_address = dispatcher.target.split("://")[1]
worker = tf.data.experimental.service.WorkerServer(
    tf.data.experimental.service.WorkerConfig(
        dispatcher_address=dispatcher_address))
dataset = tf.data.Dataset.range(10)
dataset_id = tf.data.experimental.service.register_dataset(
    dispatcher.target, dataset)
dataset = tf.data.experimental.service.from_dataset_id(
    processing_mode="parallel_epochs",
    service=dispatcher.target,
    dataset_id=dataset_id,
    element_spec=dataset.element_spec)
print(list(dataset.as_numpy_iterator()))
""",
        "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]",
    ),
    "service.DispatcherConfig": (
        """
dispatcher = tf.data.experimental.service.DispatchServer(
    tf.data.experimental.service.DispatcherConfig(
        port=0,
        work_dir=PATH,
        fault_tolerant_mode=True))
dispatcher.target.split("://")[0]
""",
        "'millstream'",
    ),
    "distribute.DistributedDataset": (
        """
global_batch_size = 4
strategy = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])
dataset = tf.data.Dataset.from_tensors(([1.],[1.])).repeat(4).batch(global_batch_size)
dist_dataset = strategy.experimental_distribute_dataset(dataset)
@tf.function
def train_step(input):
    features, labels = input
    return labels - np.float32(0.3) * features
for x in dist_dataset:
    loss = strategy.run(train_step, args=(x,))
    print("Loss is", loss)
train_dataset = tf.data.Dataset.from_tensors(([1.],[1.])).repeat(50).batch(global_batch_size)
train_dist_dataset = strategy.experimental_distribute_dataset(train_dataset)
@tf.function
def distributed_train_step(dataset_inputs):
    def train_step(input):
        loss = tf.constant(0.1)
        return loss
    per_replica_losses = strategy.run(train_step, args=(dataset_inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses,axis=None)
EPOCHS = 2
STEPS = 3
for epoch in range(EPOCHS):
    total_loss = 0.0
    num_batches = 0
    dist_dataset_iterator = iter(train_dist_dataset)
    for _ in range(STEPS):
        total_loss += distributed_train_step(next(dist_dataset_iterator))
        num_batches += 1
    average_train_loss = total_loss / num_batches
    template = ("Epoch {}, Loss: {:.4f}")
    print (template.format(epoch+1, average_train_loss))
""",
        """
Loss is PerReplica:{
  0: tf.Tensor(
[[0.7]
 [0.7]], shape=(2, 1), dtype=float32),
  1: tf.Tensor(
[[0.7]
 [0.7]], shape=(2, 1), dtype=float32)
}
Epoch 1, Loss: 0.2000
Epoch 2, Loss: 0.2000
""",
    ),
    "distribute.DistributedDataset.element_spec": (
        """
mirrored_strategy = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])
dataset = tf.data.Dataset.from_tensors(([2.])).repeat(100).batch(4)
dist_dataset = mirrored_strategy.experimental_distribute_dataset(dataset)
@tf.function(input_signature=[dist_dataset.element_spec])
def train_step(per_replica_inputs):
    def step_fn(inputs):
        return np.square(inputs)
    return mirrored_strategy.run(step_fn, args=(per_replica_inputs,))
iterator = iter(dist_dataset)
output = train_step(next(iterator))
print(output)
dataset = tf.data.Dataset.from_tensors(([1.],[2])).repeat(100).batch(16)
dist_dataset = mirrored_strategy.experimental_distribute_dataset(dataset)
dist_dataset.element_spec
dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3, 4]).repeat().batch(4)
distributed_iterator = iter(mirrored_strategy.experimental_distribute_dataset(dataset))
print(next(distributed_iterator))
""",
        """
PerReplica:{
  0: tf.Tensor(
[[4.]
 [4.]], shape=(2, 1), dtype=float32),
  1: tf.Tensor(
[[4.]
 [4.]], shape=(2, 1), dtype=float32)
}
(PerReplicaSpec(TensorSpec(shape=(None, 1), dtype=tf.float32, name=None),
                TensorSpec(shape=(None, 1), dtype=tf.float32, name=None)),
 PerReplicaSpec(TensorSpec(shape=(None, 1), dtype=tf.int32, name=None),
                TensorSpec(shape=(None, 1), dtype=tf.int32, name=None)))
PerReplica:{
  0: tf.Tensor([1 2], shape=(2,), dtype=int32),
  1: tf.Tensor([3 4], shape=(2,), dtype=int32)
}
""",
    ),
    "distribute.DistributedIterator": (
        """
strategy = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])
dataset = tf.data.Dataset.range(100).batch(2)
dist_dataset = strategy.experimental_distribute_dataset(dataset)
dist_dataset_iterator = iter(dist_dataset)
@tf.function
def one_step(input):
    return input
step_num = 5
for _ in range(step_num):
    results = strategy.run(one_step, args=(dist_dataset_iterator.get_next(),))
strategy.experimental_local_results(dist_dataset_iterator.get_next())
global_batch_size = 4
dataset = tf.data.Dataset.range(5).batch(global_batch_size)
distributed_iterator = iter(
    strategy.experimental_distribute_dataset(dataset))
def step_fn(x):
    return x
@tf.function
def train_fn(distributed_iterator):
    for _ in tf.range(2):
        optional_data = distributed_iterator.get_next_as_optional()
        if not optional_data.has_value():
            break
        per_replica_results = strategy.run(step_fn, args=(optional_data.get_value(),))
        tf.print(strategy.experimental_local_results(per_replica_results))
train_fn(distributed_iterator)
""",
        "(array([10]), array([11])) ([0 1], [2 3]) ([4], [])",
    ),
    "distribute.DistributedValues": (
        """
strategy = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])
dataset = tf.data.Dataset.from_tensor_slices([5., 6., 7., 8.]).batch(2)
dataset_iterator = iter(strategy.experimental_distribute_dataset(dataset))
distributed_values = next(dataset_iterator)
@tf.function
def run(input):
    return input + 1.0
updated_value = strategy.run(run, args=(distributed_values,))
reduced_value = strategy.reduce(tf.distribute.ReduceOp.SUM,
                                distributed_values,
                                axis = 0)
per_replica_values = strategy.experimental_local_results(
    distributed_values)
per_replica_values
float(reduced_value)
""",
        "(array([5.], dtype=float32), array([6.], dtype=float32)) 11.0",
    ),
    "distribute.ValueContext": (
        """
def value_fn(context):
    return context.replica_id_in_sync_group/context.num_replicas_in_sync
context = tf.distribute.experimental.ValueContext(
    replica_id_in_sync_group=2, num_replicas_in_sync=4)
per_replica_value = value_fn(context)
per_replica_value
strategy = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])
def value_fn(value_context):
    return value_context.num_replicas_in_sync
distributed_values = (
    strategy.experimental_distribute_values_from_function(
      value_fn))
local_result = strategy.experimental_local_results(distributed_values)
local_result
""",
        "0.5 (2, 2)",
    ),
    "distribute.InputOptions": (
        """
strategy = tf.distribute.MirroredStrategy()
dataset = tf.data.Dataset.range(16)
distributed_dataset_on_host = (
    strategy.experimental_distribute_dataset(
        dataset,
        tf.distribute.InputOptions(
            experimental_replication_mode=
            tf.distribute.InputReplicationMode.PER_WORKER,
            experimental_place_dataset_on_device=False)))
len(list(distributed_dataset_on_host))
""",
        "16",
    ),
}


def said(code: str, names: dict[str, Any]) -> str:
    """Runs code like Python's interactive prompt, and returns the output of its statements and the values of its expressions."""
    heard = io.StringIO()
    # numpy before version 2 uses this format by default.
    as_upstream = np.printoptions(legacy="1.25") if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else contextlib.nullcontext()
    with contextlib.redirect_stdout(heard), as_upstream:
        for statement in ast.parse(code).body:
            if isinstance(statement, ast.Expr):
                value = eval(compile(ast.Expression(statement.value), "example", "eval"), names)
                if value is not None:
                    print(repr(value))
            else:
                exec(compile(ast.Module([statement], []), "example", "exec"), names)
    return heard.getvalue()


def compared(text: str) -> str:
    """Removes the permitted differences between both outputs, and all white space, which numpy sets by the line width."""
    text = re.sub(r"tf\.Tensor\((.*?), shape=\([^)]*\), dtype=\w+\)", r"\1", text, flags=re.DOTALL)
    return re.sub(r"\s", "", text.replace("tf.", "ms.").replace("b'", "'"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_upstream_prints_what_upstream_says(name: str, tmp_path: Path) -> None:
    code, expected = EXAMPLES[name]
    files = [str(tmp_path / f"file{index}.txt") for index in range(1, 5)]
    names = {"tf": tf, "Dataset": tf.data.Dataset, "np": np, "PATH": str(tmp_path / "dir"), "FILES": files}
    assert compared(said(code, names)) == compared(expected)
