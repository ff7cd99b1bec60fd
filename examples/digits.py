"""Trains a classifier on real handwritten digits with numpy alone, fed by two workers, and checks its accuracy.

The digits are part of scikit-learn: 1797 pictures of 8 x 8 pixels. Workers shuffle, scale and batch the digits; the trainer
computes gradients. Exits with 1 if the classifier recognises fewer than 95 % of the test digits.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from sklearn.datasets import load_digits

import millstream as ms

EPOCHS = 40
BATCH = 32
ACCURACY_MIN = 0.95


def dataset(images: np.ndarray, labels: np.ndarray) -> ms.Dataset:
    """Returns the dataset that workers compute: every digit once per epoch, in a new order in each epoch."""
    digits = ms.Dataset.from_tensor_slices({"image": images, "label": labels})
    digits = digits.map(
        lambda digit: {
            "x": ms.cast(digit["image"], ms.float32) / 16.0,
            "y": ms.one_hot(digit["label"], 10),
        }
    )
    return digits.shuffle(len(images)).batch(BATCH)


class Classifier:
    """A network of two layers, trained by gradient descent with momentum."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.weights = [rng.normal(0, 0.1, shape).astype(np.float32) for shape in ((64, 64), (64, 10))]
        self.momenta = [np.zeros_like(weights) for weights in self.weights]

    def step(self, x: np.ndarray, y: np.ndarray, rate: float) -> float:
        """Trains one step, and returns the loss before the step."""
        hidden, scores = self._forward(x)
        share = np.exp(scores - scores.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        wrong = (share - y) / len(x)
        back = wrong @ self.weights[1].T * (hidden > 0)
        for weights, momentum, gradient in zip(self.weights, self.momenta, (x.T @ back, hidden.T @ wrong), strict=True):
            momentum *= 0.9
            momentum -= rate * gradient
            weights += momentum
        return float(-np.log(share[y > 0] + 1e-9).mean())

    def accuracy(self, x: np.ndarray, labels: np.ndarray) -> float:
        """Returns the share of digits that the network recognises."""
        return float((self._forward(x)[1].argmax(1) == labels).mean())

    def _forward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hidden = np.maximum(x @ self.weights[0], 0)
        return hidden, hidden @ self.weights[1]


def main() -> int:
    """Trains the classifier, and checks its accuracy."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.data))
    images, labels = digits.data[order].astype(np.uint8), digits.target[order].astype(np.int64)
    train, test = slice(None, 1400), slice(1400, None)
    classifier = Classifier(np.random.default_rng(1))
    began = time.monotonic()
    with ms.local(workers=2) as service:
        batches = dataset(images[train], labels[train]).apply(ms.service.distribute("distributed_epoch", service))
        for epoch in range(EPOCHS):
            seen, loss = 0, 0.0
            for batch in batches:
                loss += classifier.step(batch["x"], batch["y"], rate=0.1) * len(batch["x"])
                seen += len(batch["x"])
            if seen != 1400:
                print(f"epoch {epoch}: {seen} digits of 1400")
                return 1
            if epoch % 10 == 9:
                print(f"epoch {epoch + 1}: loss {loss / seen:.3f}")
    accuracy = classifier.accuracy(images[test].astype(np.float32) / 16, labels[test])
    print(f"{accuracy:.1%} of {len(labels[test])} unseen digits recognised, after {time.monotonic() - began:.1f} s")
    return 0 if accuracy >= ACCURACY_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
