"""Trains a small network on a folder of images with torch, on one or several GPUs or processors, and resumes.

    torchrun --nproc-per-node 2 examples/imagenet.py FOLDER --checkpoint last.pt     # FOLDER/CLASS/NAME.jpg

Start the program again, with any number of processes, to continue with the batch after the checkpoint.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.nn.parallel import DistributedDataParallel

import millstream as ms

SIZE = 64


class Images(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """A dataset of randomly cropped images from a folder with one subfolder for each class."""

    def __init__(self, root: str) -> None:
        self.paths = sorted(Path(root).glob("*/*.jpg"))
        names = sorted({path.parent.name for path in self.paths})
        self.labels = [names.index(path.parent.name) for path in self.paths]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.paths[index]) as image:
            pixels = np.asarray(image.convert("RGB").resize((SIZE + 8, SIZE + 8)))
        top, left = torch.randint(8, (2,)).tolist()
        crop = torch.from_numpy(pixels[top : top + SIZE, left : left + SIZE].copy())
        return crop.permute(2, 0, 1).float() / 255, self.labels[index]


def main() -> None:
    """Parses the arguments, and trains the network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--checkpoint", type=Path, default=Path("last.pt"))
    parser.add_argument("--service", help="the service, as millstream://host:port; by default each process starts two workers")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, help="stops after this many steps, like a preempted program")
    arguments = parser.parse_args()
    torch.distributed.init_process_group()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
    images = Images(arguments.folder)
    where = {"service": arguments.service} if arguments.service else {"num_workers": 2}
    loader = ms.DataLoader(images, arguments.batch, shuffle=True, seed=7, last_batch="DROP", device=device, **where)
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 16, 8, stride=8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(max(images.labels) + 1)]
    model = torch.nn.Sequential(*layers).to(device)
    model(torch.zeros(1, 3, SIZE, SIZE, device=device))
    if arguments.checkpoint.exists():
        saved = torch.load(arguments.checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])
    parallel = DistributedDataParallel(model)
    optimizer, steps = torch.optim.SGD(parallel.parameters(), 0.05), 0
    while loader.epoch < arguments.epochs:
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(parallel(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
            if torch.distributed.get_rank() == 0:
                print(f"epoch {loader.epoch} step {loader.step} loss {loss.item():.3f}", flush=True)
                torch.save({"model": model.state_dict(), "loader": loader.state_dict()}, arguments.checkpoint)
            if steps == arguments.steps:
                return torch.distributed.destroy_process_group()
        loader.set_epoch(loader.epoch + 1)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
