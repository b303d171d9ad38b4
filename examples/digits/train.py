#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digit classifier of ./demo on scikit-learn's digits and writes digits.onnx and the
.npy files beside it. A developer runs it; nothing else needs PyTorch.

In a virtual environment with torch, onnx, onnxscript, onnxruntime and scikit-learn:
    python examples/digits/train.py

Writes, from a fixed seed:
  digits.onnx         images f32[batch,1,8,8] in 0..1 -> scores f32[batch,10]; opset 18, weights inside
  images.npy          8 held-out images, shown by ./demo        labels.npy     their digits, i64[8]
  heldout_images.npy  u8[360,1,8,8], values 0..16, never trained on
  heldout_labels.npy  i64[360]
  heldout_scores.npy  f32[360,10] by ONNX Runtime on heldout_images / 16
and prints the accuracy on the held-out part.
"""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "models"))
import strip  # noqa: E402: found through the line above


class Digits(nn.Module):
    """A convolution, a residual one, a strided one and a hidden layer: each kind of fusion to show."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16),
                                  nn.ReLU())
        self.inner = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
        self.down = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 2 * 2, 64), nn.ReLU(),
                                  nn.Linear(64, 10))

    def forward(self, images):
        x = self.stem(images)
        x = torch.relu(x + self.inner(x))
        x = nn.functional.max_pool2d(self.down(x), 2)
        return self.head(x)


def shift(images, generator):
    """Moves each image by up to one pixel, because real digits are not centred."""
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    dy, dx = torch.randint(0, 3, (2,), generator=generator).tolist()
    return padded[:, :, dy:dy + 8, dx:dx + 8]


def train(images, labels):
    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(7)
    model = Digits()
    epochs, batch = 60, 64
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    steps = epochs * (len(images) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(images), generator=generator)
        for start in range(0, len(order) - batch + 1, batch):
            chosen = order[start:start + batch]
            loss = nn.functional.cross_entropy(model(shift(images[chosen], generator)),
                                               labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def main():
    data = load_digits()
    images = data.images.astype(np.uint8).reshape(-1, 1, 8, 8)
    labels = data.target.astype(np.int64)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=360, random_state=7, stratify=labels)
    model = train(torch.from_numpy(train_x).float() / 16, torch.from_numpy(train_y))

    path = HERE / "digits.onnx"
    batch = torch.export.Dim("batch", min=1, max=4096)
    torch.onnx.export(model, (torch.zeros(2, 1, 8, 8),), str(path), input_names=["images"],
                      output_names=["scores"], dynamic_shapes=({0: batch},), opset_version=18,
                      dynamo=True, external_data=False, verbose=False)
    exported = onnx.load(path)
    strip.remove_notes(exported)
    path.write_bytes(exported.SerializeToString(deterministic=True))

    heldout = test_x.astype(np.float32) / 16
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    scores = session.run(None, {"images": heldout})[0]
    with torch.no_grad():
        expected = model(torch.from_numpy(heldout)).numpy()
    assert np.abs(scores - expected).max() < 1e-4
    right = int((scores.argmax(1) == test_y).sum())
    print(f"{right} of {len(test_y)} held-out digits read, {100 * right / len(test_y):.1f}%")

    shown = [int(np.flatnonzero(test_y == digit)[0]) for digit in (3, 1, 4, 5, 9, 2, 6, 8)]
    np.save(HERE / "images.npy", heldout[shown])
    np.save(HERE / "labels.npy", test_y[shown])
    np.save(HERE / "heldout_images.npy", test_x)
    np.save(HERE / "heldout_labels.npy", test_y)
    np.save(HERE / "heldout_scores.npy", scores)


if __name__ == "__main__":
    main()
