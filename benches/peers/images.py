"""Images per second: Millstream compared with tf.data and torchvision, on the same files and cores, in interleaved rounds.

    python3 benches/peers/images.py [--rounds 7] [--seconds 5] [--cores 2]

The command creates a virtual environment (target/peers), installs the peers, writes JPEG files of 500 x 375 pixels and quality 90, builds
the benchmark of the pipeline, and measures this pipeline:

    read file, decode JPEG, random resized crop to 224 x 224, random left-right flip, batch of 32, uint8

The functions below show the pipeline of each peer. In a round, each peer runs for some seconds, one after the other; warm-up batches are
not counted. The command prints the medians of the rounds with their spread: images per second, milliseconds of processor time per image,
and the ratios of each round.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import time

from shared import HOME, TARGET, Child, environment, run_within, spread

FILES = HOME / "jpeg-500x375"
PACKAGES = ["tensorflow-cpu", "torch", "torchvision", "numpy", "pillow"]
COUNT = 512
BATCH = 32
WARM_UP = 2


def write_files() -> None:
    """Writes pictures, on all cores."""
    FILES.mkdir(parents=True, exist_ok=True)
    with multiprocessing.Pool() as pool:
        pool.map(write_file, range(COUNT))


def write_file(index: int) -> None:
    """Writes a picture with the 1/f spectrum of photographs, so that its file is as large as a photograph."""
    import numpy
    from PIL import Image

    path = FILES / f"{index:04}.jpg"
    if path.exists():
        return
    height, width = 375, 500
    y = numpy.fft.fftfreq(height)[:, None]
    x = numpy.fft.rfftfreq(width)[None, :]
    amplitude = 1.0 / numpy.maximum(numpy.hypot(y, x), 1.0 / width) ** 1.5
    draw = numpy.random.default_rng(index)

    def field(scale: float) -> numpy.ndarray:
        phase = numpy.exp(2j * numpy.pi * draw.random((height, width // 2 + 1)))
        plane = numpy.fft.irfft2(amplitude * phase, s=(height, width))
        return plane / plane.std() * scale

    luma, blue, red = field(55), field(16), field(16)
    rgb = numpy.stack([luma + 1.4 * red, luma - 0.34 * blue - 0.71 * red, luma + 1.77 * blue], axis=-1) + 118
    Image.fromarray(rgb.clip(0, 255).astype(numpy.uint8)).save(path, quality=90)


def tf_data(cores: int):
    """Creates a tf.data pipeline with the fused decode-and-crop. As its guide recommends, the map is parallel and unordered, with a prefetch."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(cores)
    tf.config.threading.set_intra_op_parallelism_threads(1)

    def load(path):
        data = tf.io.read_file(path)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(data),
            bounding_boxes=tf.zeros([1, 0, 4]),
            min_object_covered=0.0,
            aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        image = tf.image.decode_and_crop_jpeg(data, window, channels=3)
        image = tf.cast(tf.image.resize(image, [224, 224]) + 0.5, tf.uint8)
        return tf.image.random_flip_left_right(image)

    options = tf.data.Options()
    options.threading.private_threadpool_size = cores
    options.threading.max_intra_op_parallelism = 1
    dataset = tf.data.Dataset.list_files(str(FILES / "*.jpg")).cache().repeat()
    dataset = dataset.map(load, num_parallel_calls=cores, deterministic=False)
    dataset = dataset.batch(BATCH, drop_remainder=True).prefetch(2).with_options(options)
    return lambda: iter(dataset)


def torchvision(cores: int):
    """Creates a DataLoader with a worker process for each core, Pillow's decoder and torchvision's transforms."""
    import torch
    from PIL import Image
    from torchvision import transforms

    torch.set_num_threads(1)
    change = transforms.Compose(
        [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]
    )
    paths = sorted(FILES.glob("*.jpg"))

    class Files(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 40

        def __getitem__(self, index):
            with Image.open(paths[index % len(paths)]) as image:
                return change(image.convert("RGB"))

    loader = torch.utils.data.DataLoader(Files(), batch_size=BATCH, num_workers=cores, drop_last=True)
    return lambda: iter(loader)


def peer(name: str, cores: int) -> None:
    """Measures one round for each line of standard input. A line contains the seconds."""
    import resource

    opened = {"tf.data": tf_data, "torchvision": torchvision}[name](cores)

    def cpu() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used)

    for line in sys.stdin:
        before = cpu()
        batches = opened()
        for _ in range(WARM_UP):
            assert tuple(next(batches).shape)[0] == BATCH
        start, count = time.monotonic(), 0
        while time.monotonic() - start < float(line):
            next(batches)
            count += 1
        seconds = time.monotonic() - start
        del batches
        cpu_ms = (cpu() - before) * 1e3 / ((count + WARM_UP) * BATCH)
        print(json.dumps({"images_per_s": count * BATCH / seconds, "cpu_ms_per_image": cpu_ms}), flush=True)


def build() -> pathlib.Path:
    """Builds the benchmark of the pipeline without the dependencies of tests, and returns its path."""
    manifest = pathlib.Path(__file__).with_name("Cargo.toml")
    command = ["cargo", "build", "--release", "--locked", "--manifest-path", manifest, "--bin", "images"]
    subprocess.run([*command, "--target-dir", TARGET], check=True)
    return TARGET / "release" / "images"


def measure(rounds: int, seconds: float, cores: int) -> None:
    """Measures all peers in turn, each in a separate process."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    this = [sys.executable, __file__, "--cores", str(cores), "--peer"]
    commands = {
        "millstream": [build(), str(FILES / "*.jpg"), str(cores)],
        "tf.data": [*this, "tf.data"],
        "torchvision": [*this, "torchvision"],
    }
    children = {name: Child(command) for name, command in commands.items()}
    found = {name: [] for name in children}
    try:
        for number in range(rounds + 1):
            for name, child in children.items():
                answer = child.asked(str(seconds))
                # The first round loads libraries and files, so it does not count.
                if number > 0:
                    found[name].append(answer)
    finally:
        for child in children.values():
            child.end()
    report(found)


def report(found: dict) -> None:
    """Prints the medians of the rounds, and the ratios between Millstream and each peer."""
    ours = found["millstream"]
    print(f"{'':12} {'images/s':>26} {'processor ms/image':>26} {'ours / theirs':>22} {'of processor':>22}")
    for name, rounds in found.items():
        speed = [one["images_per_s"] for one in rounds]
        cpu = [one["cpu_ms_per_image"] for one in rounds]
        by_speed = spread([one["images_per_s"] / other for one, other in zip(ours, speed, strict=True)], 2)
        by_cpu = spread([other / one["cpu_ms_per_image"] for one, other in zip(ours, cpu, strict=True)], 2)
        print(f"{name:12} {spread(speed, 0):>26} {spread(cpu, 3):>26} {by_speed:>22} {by_cpu:>22}")


def main() -> None:
    """Parses the arguments, and measures the peers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peer", choices=["tf.data", "torchvision"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return peer(args.peer, args.cores)
    run_within(environment(PACKAGES), __file__)
    write_files()
    measure(args.rounds, args.seconds, args.cores)
    return None


if __name__ == "__main__":
    main()
