"""Trains a classifier on real handwritten digits with torch, fed by two workers, and checks its accuracy.

A torch dataset with augmentation in Python runs on the workers, and the trainer receives tensors. On a machine with a GPU, the trainer
uses the GPU and prefetches batches to it. Exits with 1 if the classifier recognises fewer than 95 % of the test digits.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import cloudpickle
import numpy as np
import torch
from sklearn.datasets import load_digits

import millstream as ms

EPOCHS = 20
BATCH = 32
ACCURACY_MIN = 0.95


class Digits(torch.utils.data.Dataset[tuple[Any, int]]):
    """A dataset of pictures. Each access shifts the picture sideways by up to a pixel, at random."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image = torch.from_numpy(self.images[index]).float() / 16
        left = int(torch.randint(3, ()))
        return torch.nn.functional.pad(image, (1, 1))[:, left : left + 8].flatten(), int(self.labels[index])


def main() -> int:
    """Trains the classifier, and checks its accuracy."""
    # Workers do not have this program, so its classes are pickled by value.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    images, labels = digits.images[order].astype(np.uint8), digits.target[order].astype(np.int64)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    began = time.monotonic()
    with ms.local(workers=2) as service:
        batches = ms.feed(ms.distribute(Digits(images[:1400], labels[:1400]), service, batch_size=BATCH, shuffle=True), device)
        for epoch in range(EPOCHS):
            seen, loss = 0, torch.zeros((), device=device)
            for x, y in batches:
                optimizer.zero_grad()
                wrong = torch.nn.functional.cross_entropy(model(x), y)
                wrong.backward()
                optimizer.step()
                seen, loss = seen + len(x), loss + wrong.detach() * len(x)
            if seen != 1400:
                print(f"epoch {epoch}: {seen} digits of 1400")
                return 1
            if epoch % 5 == 4:
                print(f"epoch {epoch + 1}: loss {float(loss) / seen:.3f}")
    with torch.no_grad():
        unseen = torch.from_numpy(images[1400:]).float().flatten(1).to(device) / 16
        found = model(unseen).argmax(1).cpu().numpy()
    accuracy = float((found == labels[1400:]).mean())
    print(f"{accuracy:.1%} of {len(found)} unseen digits recognised, after {time.monotonic() - began:.1f} s")
    return 0 if accuracy >= ACCURACY_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
