"""Trains a classifier on real handwritten digits with JAX, fed by two workers, and checks its accuracy.

Workers shuffle, scale and batch the digits. All batches have one shape, so that JAX compiles the step once. Exits with 1 if the
classifier recognises fewer than 95 % of the test digits.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import millstream as ms

EPOCHS = 40
BATCH = 32
ACCURACY_MIN = 0.95

Layers = list[tuple[jax.Array, jax.Array]]


def scores(layers: Layers, x: jax.Array) -> jax.Array:
    """Returns the score of each digit, for each picture."""
    (inner, inner_bias), (outer, outer_bias) = layers
    return jnp.maximum(x @ inner + inner_bias, 0) @ outer + outer_bias


@jax.jit
def step(layers: Layers, momenta: Layers, batch: dict[str, jax.Array]) -> tuple[Layers, Layers, jax.Array]:
    """Trains one step, and returns the loss before the step."""

    def loss(layers: Layers) -> jax.Array:
        return -(jax.nn.log_softmax(scores(layers, batch["x"])) * batch["y"]).sum(1).mean()

    before, slopes = jax.value_and_grad(loss)(layers)
    momenta = jax.tree.map(lambda momentum, slope: 0.9 * momentum - 0.1 * slope, momenta, slopes)
    return jax.tree.map(jnp.add, layers, momenta), momenta, before


def dataset(images: np.ndarray, labels: np.ndarray) -> ms.Dataset:
    """Returns the dataset that workers compute: every digit once per epoch, in a new order in each epoch."""
    digits = ms.Dataset.from_tensor_slices({"image": images, "label": labels})
    digits = digits.map(
        lambda digit: {"x": ms.cast(digit["image"], ms.float32) / 16.0, "y": ms.one_hot(digit["label"], 10)}
    )
    return digits.shuffle(len(images)).batch(BATCH, drop_remainder=True)


def main() -> int:
    """Trains the classifier, and checks its accuracy."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.data))
    images, labels = digits.data[order].astype(np.uint8), digits.target[order].astype(np.int64)
    keys = jax.random.split(jax.random.key(0))
    layers: Layers = [
        (0.1 * jax.random.normal(key, shape), jnp.zeros(shape[1])) for key, shape in zip(keys, ((64, 64), (64, 10)), strict=True)
    ]
    momenta: Any = jax.tree.map(jnp.zeros_like, layers)
    began = time.monotonic()
    with ms.local(workers=2) as service:
        batches = dataset(images[:1400], labels[:1400]).apply(ms.service.distribute("distributed_epoch", service))
        batches = batches.with_output("jax")
        for epoch in range(EPOCHS):
            seen, loss = 0, 0.0
            for batch in batches:
                layers, momenta, before = step(layers, momenta, batch)
                seen, loss = seen + BATCH, loss + float(before) * BATCH
            if epoch % 10 == 9:
                print(f"epoch {epoch + 1}: loss {loss / seen:.3f} of {seen} digits")
    found = scores(layers, images[1400:].astype(np.float32) / 16).argmax(1)
    accuracy = float((np.asarray(found) == labels[1400:]).mean())
    print(f"{accuracy:.1%} of {len(found)} unseen digits recognised, after {time.monotonic() - began:.1f} s")
    return 0 if accuracy >= ACCURACY_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
