"""Elements per second: Millstream compared with the tf.data service, Arrow Flight, torch's DataLoader and Ray Data, in interleaved rounds.

    python3 benches/peers/elements.py [--peers LIST] [--bytes LIST] [--rounds 5] [--seconds 1] [--into FILE [--limit-s S]] [--report FILE ...]

The command creates a virtual environment (target/peers), installs the peers and builds Millstream. The command then measures the rate at
which one consumer receives elements from one producer in another process. The elements are random bytes of each size, and the results of a Python
function that computes for 1 ms. The functions below show the pipeline of each peer. In the rows *written*, the producer writes every byte
of every element; in the other rows the producer sends existing bytes. ``--into`` stores the rounds in a file and measures only the rounds that the
file lacks, so that a measurement can run in parts. ``--limit-s`` ends a part after this many seconds. ``--report`` prints the combined
rounds of several files.
"""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time

from shared import ROOT, TARGET, Child, environment, packaged, run_within, spread

PACKAGES = ["tensorflow-cpu", "torch", "numpy", "pyarrow", "ray[data]", "cloudpickle"]
SIZES = {"1k": 1 << 10, "64k": 64 << 10, "1M": 1 << 20, "16M": 16 << 20}
MAP = "map of 1 ms"
MAP_S = 1e-3
CONSTANT_BYTES_MAX = 8 << 20
#: The number of elements before the clock starts, and the minimum number of measured elements.
WARM_UP, COUNT_MIN = 8, 4


def payload(size: int):
    """Returns random bytes, which no compression shortens."""
    import numpy

    return numpy.random.default_rng(0).integers(0, 256, size, numpy.uint8)


class Busy:
    """A dataset by index. Each item takes a millisecond of processor time."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int):
        import numpy

        until = time.perf_counter() + MAP_S
        while time.perf_counter() < until:
            pass
        return numpy.full(16, index)


def millstream(protocol: str):
    """Starts one worker with ``ms.local``. Elements are numpy arrays; the worker writes every byte from a constant into the slot."""
    import cloudpickle

    import millstream as ms

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    service = ms.local(workers=1)

    def opened(size):
        if size is None:
            return iter(ms.distribute(Busy(), service, num_parallel_calls=1, data_transfer_protocol=protocol))
        # The size of a definition is limited, so large elements are batches of smaller rows.
        rows = -(-size // CONSTANT_BYTES_MAX)
        dataset = ms.Dataset.from_tensors(payload(size // rows)).repeat()
        dataset = dataset.batch(rows) if rows > 1 else dataset
        return iter(dataset.apply(ms.service.distribute("parallel_epochs", service, data_transfer_protocol=protocol)))

    return opened


def tf_service(target_workers: str, compression: str | None):
    """Starts one worker of the tf.data service, in a separate process or (LOCAL) in the consumer's process.

    The default compression is AUTO, which only slows down random bytes. Graphs contain no Python functions, so only a worker in the
    consumer's process can call the Python function.
    """
    import tensorflow as tf

    if target_workers == "LOCAL":
        dispatcher = tf.data.experimental.service.DispatchServer()
        address = dispatcher.target.split("://")[1]
        config = tf.data.experimental.service.WorkerConfig(dispatcher_address=address, heartbeat_interval_ms=100)
        kept = (dispatcher, tf.data.experimental.service.WorkerServer(config))
        target = dispatcher.target
    else:
        kept = subprocess.Popen([sys.executable, __file__, "--serve", "tf"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        target = kept.stdout.readline().decode().strip()

    def opened(size):
        opened.kept = kept
        if size is not None:
            dataset = tf.data.Dataset.from_tensors(payload(size)).repeat()
        elif target_workers == "LOCAL":
            work = Busy()
            dataset = tf.data.Dataset.range(len(work)).map(lambda index: tf.numpy_function(work.__getitem__, [index], tf.int64))
        else:
            return None
        distribute = tf.data.experimental.service.distribute(
            "parallel_epochs", target, compression=compression, target_workers=target_workers
        )
        return iter(dataset.apply(distribute))

    return opened


def millstream_tf(protocol: str):
    """Runs the TensorFlow dataset of the tf.data service on one worker of ``ms.local``. Elements are TensorFlow tensors."""
    import tensorflow as tf

    import millstream as ms

    service = ms.local(workers=1)

    def opened(size):
        if size is None:
            return None
        # The size of a definition is limited, so large elements are batches of smaller rows.
        rows = -(-size // CONSTANT_BYTES_MAX)
        dataset = tf.data.Dataset.from_tensors(payload(size // rows)).repeat()
        dataset = dataset.batch(rows) if rows > 1 else dataset
        return iter(dataset.apply(ms.tf.distribute("parallel_epochs", service, data_transfer_protocol=protocol)))

    return opened


def flight():
    """Starts a server in a separate process, which streams batches of one row. A row is a buffer of bytes."""
    import pyarrow.flight

    server = subprocess.Popen([sys.executable, __file__, "--serve", "flight"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    client = pyarrow.flight.connect(server.stdout.readline().decode().strip())

    def opened(size):
        opened.server = server
        reader = client.do_get(pyarrow.flight.Ticket(str(size or 0).encode()))
        return (reader.read_chunk() for _ in itertools.count())

    return opened


def torch_loader(written: bool):
    """Creates a DataLoader with one worker process and without batching. If not ``written``, the worker sends one shared tensor repeatedly."""
    import torch

    torch.set_num_threads(1)

    class Same(torch.utils.data.Dataset):
        def __init__(self, size):
            self.tensor = torch.from_numpy(payload(size))

        def __len__(self):
            return 1 << 40

        def __getitem__(self, index):
            return self.tensor.clone() if written else self.tensor

    def opened(size):
        dataset = Busy() if size is None else Same(size)
        return iter(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1))

    return opened


def ray_data():
    """Creates a Ray dataset: a task makes one row at a time, and the consumer reads batches of one row."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False

    def opened(size):
        if size is None:
            work = Busy()
            # Blocks have 32 rows. Ray would compute a larger first block before the clock starts, and it would last for the whole round.
            dataset = ray.data.range(1 << 13, override_num_blocks=1 << 8)
            one = ray.data.TaskPoolStrategy(size=1)
            dataset = dataset.map(lambda row: {"x": work[row["id"]]}, compute=one)
        else:
            bytes_ = payload(size)
            dataset = ray.data.range(min(1 << 14, (1 << 32) // size)).map(lambda row: {"x": bytes_})
        return iter(dataset.iter_batches(batch_size=1, prefetch_batches=4))

    return opened


PEERS = {
    "millstream quic, written": lambda: millstream("quic"),
    "millstream shm, written": lambda: millstream("shm"),
    "millstream quic, tf.data": lambda: millstream_tf("quic"),
    "millstream shm, tf.data": lambda: millstream_tf("shm"),
    "tf.data service, remote": lambda: tf_service("AUTO", "AUTO"),
    "tf.data service, remote, none": lambda: tf_service("AUTO", None),
    "tf.data service, LOCAL": lambda: tf_service("LOCAL", "AUTO"),
    "tf.data service, LOCAL, none": lambda: tf_service("LOCAL", None),
    "Arrow Flight": flight,
    "torch DataLoader": lambda: torch_loader(written=False),
    "torch DataLoader, written": lambda: torch_loader(written=True),
    "Ray Data": ray_data,
}
#: Rows measured by `bench-transfer`: its producer stamps elements, and the Rust reader reads them.
STAMPED = {"millstream quic": "quic", "millstream shm": "shm"}

#: The comparisons: the row of Millstream, the row of the peer, the size, and the target of the ratio, if there is one.
RATIOS = [
    ("millstream quic, written", "tf.data service, remote", "1k", 250),
    ("millstream quic, written", "tf.data service, remote, none", "1k", 250),
    ("millstream quic, written", "tf.data service, remote", "1M", 4),
    ("millstream quic, written", "tf.data service, remote, none", "1M", 4),
    *(("millstream quic, tf.data", "tf.data service, remote", size, None) for size in ("1k", "1M")),
    ("millstream shm, tf.data", "tf.data service, LOCAL", "1M", None),
    ("millstream quic", "Arrow Flight", "1M", 2.5),
    ("millstream shm", "torch DataLoader", "1M", 20),
    ("millstream shm, written", "torch DataLoader, written", "1M", None),
    ("millstream shm, written", "tf.data service, LOCAL", "1M", None),
    ("millstream shm, written", "Ray Data", "1M", None),
    ("millstream shm, written", "torch DataLoader", MAP, 0.95),
]


def serve(kind: str) -> None:
    """Runs the server of a peer until standard input ends."""
    if kind == "tf":
        import tensorflow as tf

        dispatcher = tf.data.experimental.service.DispatchServer()
        config = tf.data.experimental.service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1])
        worker = tf.data.experimental.service.WorkerServer(config)
        print(dispatcher.target, flush=True)
        sys.stdin.read()
        del worker
        return
    import pyarrow
    import pyarrow.flight

    class Server(pyarrow.flight.FlightServerBase):
        def do_get(self, context, ticket):
            size = int(ticket.ticket)
            if not size:
                schema = pyarrow.schema([("x", pyarrow.list_(pyarrow.int64()))])
                work = Busy()
                rows = (pyarrow.record_batch([[work[index]]], schema=schema) for index in range(len(work)))
                return pyarrow.flight.GeneratorStream(schema, rows)
            buffer = pyarrow.py_buffer(payload(size).tobytes())
            array = pyarrow.FixedSizeBinaryArray.from_buffers(pyarrow.binary(size), 1, [None, buffer])
            batch = pyarrow.record_batch([array], names=["x"])
            return pyarrow.flight.GeneratorStream(batch.schema, itertools.repeat(batch))

    server = Server("grpc://127.0.0.1:0")
    print(f"grpc://127.0.0.1:{server.port}", flush=True)
    sys.stdin.read()
    os._exit(0)


def peer(name: str) -> None:
    """Measures one round for each line of standard input. A line contains a size and the seconds."""
    opened = PEERS[name]()
    for line in sys.stdin:
        size, seconds = line.split()
        elements = opened(None if size == "map" else int(size))
        rate = None if elements is None else rate_of(elements, float(seconds))
        del elements
        print(json.dumps({"per_s": rate}), flush=True)


def rate_of(elements, seconds: float) -> float:
    """Returns the number of elements per second, after a warm-up."""
    for _ in range(WARM_UP):
        next(elements)
    began, count = time.monotonic(), 0
    while count < COUNT_MIN or time.monotonic() - began < seconds:
        next(elements)
        count += 1
    return count / (time.monotonic() - began)


def built(again: bool) -> tuple:
    """Returns the package with an optimised extension, and the path of `bench-transfer`. Builds both if ``again``."""
    if again:
        subprocess.run(["cargo", "build", "--profile", "dist", "--locked", "--bin", "bench-transfer"], cwd=ROOT, check=True)
    return packaged("dist", is_built=not again), TARGET / "dist/bench-transfer"


def stamped(program: pathlib.Path, transport: str, size: int, seconds: float) -> float:
    """Returns the rate that ``bench-transfer`` measures."""
    command = [program, "local", "--transport", transport, "--element-bytes", size, "--seconds", seconds, "--json"]
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return json.loads(ran.stdout.strip().splitlines()[-1])["elements_per_s"]


class Children:
    """One process for each peer. Each process lives until ``end``."""

    def __init__(self, package: pathlib.Path, program: pathlib.Path) -> None:
        self.program = program
        self.environ = {"PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
        self.children = {}

    def rate(self, name: str, size: str, seconds: float) -> float | None:
        """Measures a round. Returns nothing if the peer does not support the size."""
        if name in STAMPED:
            return None if size == MAP else stamped(self.program, STAMPED[name], SIZES[size], seconds)
        is_new = name not in self.children
        if is_new:
            self.children[name] = Child([sys.executable, __file__, "--peer", name], **self.environ)
        # The first round of a process loads libraries, so it is repeated.
        for of in (seconds / 4, seconds) if is_new else (seconds,):
            rate = self.children[name].asked(f"{SIZES.get(size, 'map')} {of}")["per_s"]
        return rate

    def end(self) -> None:
        """Ends all processes."""
        for child in self.children.values():
            child.end()


def measure(args: argparse.Namespace, names: list, sizes: list) -> dict:
    """Measures the rounds that the file lacks, until the time is over. Returns all rounds by size and name."""
    began = time.monotonic()
    found = json.loads(args.into.read_text()) if args.into and args.into.exists() else {}
    children = Children(*built(not args.built))
    try:
        for size, number, name in itertools.product(sizes, range(args.rounds), names):
            rounds = found.setdefault(size, {}).setdefault(name, [])
            if len(rounds) > number:
                continue
            if args.limit_s and time.monotonic() - began > args.limit_s:
                print(f"stopped at {name}, {size}, round {number + 1}, after the time limit: run the command again to continue")
                break
            # An unsupported size is recorded too.
            rounds.append(children.rate(name, size, args.seconds * (3 if size == MAP else 1)))
            if args.into:
                args.into.write_text(json.dumps(found))
    finally:
        children.end()
    return found


def report(found: dict) -> None:
    """Prints the table of rates, and the ratios of interleaved rounds."""
    rates = {
        size: {name: [rate for rate in rounds if rate is not None] for name, rounds in by_name.items()}
        for size, by_name in found.items()
    }
    print(f"{'elements/s':32}" + "".join(f"{size:>32}" for size in rates))
    for name in [*STAMPED, *PEERS]:
        cells = [spread(by_name[name], 0) if by_name.get(name) else "-" for by_name in rates.values()]
        if set(cells) != {"-"}:
            print(f"{name:32}" + "".join(f"{cell:>32}" for cell in cells))
    for ours, other, size, asked in RATIOS:
        pairs = list(zip(rates.get(size, {}).get(ours, []), rates.get(size, {}).get(other, []), strict=False))
        if pairs:
            ratios = [one / two for one, two in pairs]
            print(f"{ours} / {other}, {size}: {spread(ratios)}" + (f", target: {asked}" if asked else ""))


def main() -> None:
    """Measures the peers that the arguments name, and prints rates and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=",".join(["millstream", "tf.data", "Arrow", "torch", "Ray"]), help="comma-separated prefixes of peers")
    parser.add_argument("--bytes", default="1k,64k,1M,16M,map")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--built", action="store_true", help="measures the existing build instead of building again")
    parser.add_argument("--into", type=pathlib.Path)
    parser.add_argument("--limit-s", type=float, help="starts no further round after this many seconds")
    parser.add_argument("--report", type=pathlib.Path, nargs="+")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--serve", choices=["tf", "flight"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return peer(args.peer)
    if args.serve:
        return serve(args.serve)
    if args.report:
        together = {}
        for size, name, rates in (
            (size, name, rates)
            for path in args.report
            for size, by_name in json.loads(path.read_text()).items()
            for name, rates in by_name.items()
        ):
            together.setdefault(size, {}).setdefault(name, []).extend(rates)
        return report(together)
    run_within(environment(PACKAGES), __file__)
    beginnings = tuple(args.peers.split(","))
    names = [name for name in [*STAMPED, *PEERS] if name.startswith(beginnings)]
    sizes = [MAP if size == "map" else size for size in args.bytes.split(",")]
    return report(measure(args, names, sizes))


if __name__ == "__main__":
    main()
