"""Training on one GPU: Millstream compared with torch's DataLoader, with a model that waits for nothing as the upper bound.

    python3 benches/peers/training.py [--rounds 3] [--seconds 8] [--model resnet50] [--batch 256]

The command needs a GPU that torch finds, and an interpreter with torch, torchvision and Millstream. It measures two things.

`copies` reads elements of 16 MiB, which cost no computation, through `ms.feed`, by shared memory and by QUIC. Copies of pinned and of
pageable memory in the same rounds are the yardsticks.

`training` trains a model in bfloat16 on the JPEG files of `images.py`:

    shuffle, read file, decode JPEG, random resized crop to 224 x 224, random left-right flip, batch, uint8; normalised on the GPU

`resident` repeats the step with one batch that stays on the GPU. `shm` and `quic` read a dataset without Python from two workers, with the
guarantees of tf.data's service; `exactly once` reads it with `ms.DataLoader`. `ms.DataLoader` and `DataLoader` read the same torch dataset,
which decodes with Pillow and torchvision, in one process for each core. The last column is the share of the time in which the training
program waited for its next batch. All readers have the same cores. Rounds are interleaved; the figures are medians with their spread.
"""

import argparse
import contextlib
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import images
import torch

import millstream as ms
from shared import HOME, spread

MIB = 1 << 20
ELEMENT_BYTES = 16 * MIB
FOLDER = HOME / "image-folder"
#: The number of names of each file, so that an epoch takes some seconds.
NAMES = 128


def write_folder() -> None:
    """Writes the pictures, and links them as a folder with four classes."""
    images.write_files()
    for index, path in enumerate(sorted(images.FILES.glob("*.jpg"))):
        folder = FOLDER / f"class{index % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        for name in range(NAMES):
            link = folder / f"{path.stem}-{name:02}.jpg"
            if not link.exists():
                os.link(path, link)


def copies(rounds: int, count: int) -> None:
    """Prints the rates at which elements without computation reach the GPU."""
    source = torch.zeros(ELEMENT_BYTES, dtype=torch.uint8)
    pinned = source.pin_memory()

    def by_copy(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        return (tensor.to("cuda", non_blocking=True) for _ in range(count))

    def by_feed(protocol: str) -> Callable[[], Iterable[torch.Tensor]]:
        endless = ms.Dataset.from_tensors(source[:MIB].numpy()).repeat().batch(ELEMENT_BYTES // MIB)
        served = endless.apply(ms.service.distribute("parallel_epochs", service, data_transfer_protocol=protocol))
        feed = iter(ms.feed(served))
        return lambda: (next(feed) for _ in range(count))

    with ms.local(workers=4, threads=2) as service:
        ways: dict[str, Callable[[], Iterable[torch.Tensor]]] = {
            "pinned": lambda: by_copy(pinned),
            "pageable": lambda: by_copy(source),
            "feed, shm": by_feed("shm"),
            "feed, quic": by_feed("quic"),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for name, elements in [*ways.items(), *list(ways.items()) * rounds]:
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in elements():
                pass
            torch.cuda.synchronize()
            rates[name].append(count * ELEMENT_BYTES / (time.perf_counter() - began) / 1e9)
    print(f"copies of {ELEMENT_BYTES // MIB} MiB, {count} in a round\n{'':<14}{'GB/s':>22}{'of pinned':>22}")
    for name, found in rates.items():
        # The first round of each way fills buffers and registers memory, so it does not count.
        ratios = [own / best for own, best in zip(found[1:], rates["pinned"][1:], strict=True)]
        print(f"{name:<14}{spread(found[1:]):>22}{spread(ratios):>22}", flush=True)


def pictures(batch: int) -> ms.Dataset:
    """Returns an epoch of shuffled batches that workers prepare without Python."""
    files = ms.files.image_folder(str(FOLDER)).shuffle(1000, seed=7).decode_image("image", channels=3)
    changed = files.random_resized_crop("image", (224, 224), seed=7).random_flip_left_right("image", seed=7)
    return changed.batch(batch, drop_remainder=True)


def channels_first(element: Any) -> tuple[Any, Any]:
    """Returns the pixels, as torch's models expect them, and the labels."""
    return element["image"].permute(0, 3, 1, 2), element["label"]


def upstream(service: Any, batch: int, protocol: str) -> Iterator[tuple[Any, Any]]:
    """Yields batches on the GPU from workers that each read the whole dataset."""
    endless = pictures(batch).repeat()
    served = endless.apply(ms.service.distribute("parallel_epochs", service, data_transfer_protocol=protocol))
    for element in ms.feed(served):
        yield channels_first(element)


def exactly_once(service: Any, batch: int) -> Iterator[tuple[Any, Any]]:
    """Yields the batches of one epoch after the other on the GPU, each of them once."""
    loader = ms.DataLoader(pictures(batch), batch_size=None, service=service, seed=7, output="torch", device="cuda")
    while True:
        for element in loader:
            yield channels_first(element)
        loader.set_epoch(loader.epoch + 1)


class Pictures(torch.utils.data.Dataset[Any]):
    """A torch dataset of the pictures, which decodes with Pillow, and crops and flips with torchvision."""

    def __init__(self) -> None:
        from torchvision import transforms

        self.paths = sorted(FOLDER.glob("*/*.jpg"))
        steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]
        self.change = transforms.Compose(steps)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        from PIL import Image

        path: pathlib.Path = self.paths[index]
        with Image.open(path) as image:
            return self.change(image.convert("RGB")), int(path.parent.name[-1])


def dataloader(batch: int, cores: int) -> Iterator[tuple[Any, Any]]:
    """Yields batches on the GPU from torch's DataLoader with pinned memory and one process for each core."""
    settings = {"num_workers": cores, "pin_memory": True, "prefetch_factor": 4, "persistent_workers": True}
    loader = torch.utils.data.DataLoader(Pictures(), batch, shuffle=True, drop_last=True, **settings)
    while True:
        for pixels, labels in loader:
            yield pixels.cuda(non_blocking=True), labels.cuda(non_blocking=True)


def millstream_loader(batch: int, cores: int) -> Iterator[tuple[Any, Any]]:
    """Yields batches of the same torch dataset on the GPU, from a worker with one Python process for each core."""
    loader = ms.DataLoader(Pictures(), batch, shuffle=True, seed=7, drop_last=True, num_workers=cores, device="cuda")
    while True:
        yield from loader
        loader.set_epoch(loader.epoch + 1)


def resident(batch: int) -> Iterator[tuple[Any, Any]]:
    """Yields one batch on the GPU again and again."""
    pixels = torch.randint(256, (batch, 224, 224, 3), dtype=torch.uint8, device="cuda").permute(0, 3, 1, 2)
    labels = torch.randint(4, (batch,), device="cuda")
    while True:
        yield pixels, labels


class Trainer:
    """A model with its optimizer, which measures its own steps and waits."""

    def __init__(self, model: str) -> None:
        import torchvision

        self._model = torchvision.models.get_model(model, num_classes=4).cuda().to(memory_format=torch.channels_last)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)

    def run(self, batches: Iterator[tuple[Any, Any]], seconds: float) -> tuple[float, float]:
        """Returns the images per second, and the share of the time that was spent in requests for batches."""
        for _ in range(6):
            self._step(*next(batches))
        torch.cuda.synchronize()
        began = time.perf_counter()
        count, waited = 0, 0.0
        while time.perf_counter() - began < seconds:
            asked = time.perf_counter()
            pixels, labels = next(batches)
            waited += time.perf_counter() - asked
            self._step(pixels, labels)
            count += len(labels)
            # A training program that logs its loss waits for the GPU after each step. Thus waits at the loader are waits of the GPU.
            torch.cuda.synchronize()
        elapsed = time.perf_counter() - began
        return count / elapsed, waited / elapsed

    def _step(self, pixels: Any, labels: Any) -> None:
        x = pixels.to(torch.bfloat16, memory_format=torch.channels_last).sub_(118).div_(58)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self._model(x), labels)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()


def training(model: str, batch: int, rounds: int, seconds: float, cores: int) -> None:
    """Prints the rates and waits of each reader."""
    torch.backends.cudnn.benchmark = True
    trainer = Trainer(model)
    rates: dict[str, list[float]] = {}
    waits: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name in ("resident", "shm", "quic", "exactly once", "ms.DataLoader", "DataLoader"):
            # Each reader's processes live for its own rounds alone, so that the others have all cores.
            with contextlib.ExitStack() as stack:
                if name == "resident":
                    batches = resident(batch)
                elif name == "DataLoader":
                    batches = dataloader(batch, cores)
                elif name == "ms.DataLoader":
                    batches = millstream_loader(batch, cores)
                else:
                    service = stack.enter_context(ms.local(workers=2, threads=max(1, cores // 2)))
                    once = name == "exactly once"
                    batches = exactly_once(service, batch) if once else upstream(service, batch, name)
                rate, waited = trainer.run(batches, seconds)
                batches.close()  # type: ignore[attr-defined]
            rates.setdefault(name, []).append(rate)
            waits.setdefault(name, []).append(100 * waited)
    print(f"\ntraining of {model}, batches of {batch}, {cores} cores\n{'':<18}{'images/s':>28}{'of resident':>20}{'waits, %':>20}")
    for name, found in rates.items():
        ratios = [own / best for own, best in zip(found, rates["resident"], strict=True)]
        print(f"{name:<18}{spread(found, 0):>28}{spread(ratios):>20}{spread(waits[name], 1):>20}", flush=True)


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--copies", type=int, default=200)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("training.py: torch finds no GPU on this machine")
    cores = len(os.sched_getaffinity(0))
    print(f"{torch.cuda.get_device_name()}, {cores} cores, torch {torch.__version__}", flush=True)
    write_folder()
    copies(arguments.rounds, arguments.copies)
    training(arguments.model, arguments.batch, arguments.rounds, arguments.seconds, cores)


if __name__ == "__main__":
    main()
