"""The networks of the papers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedstas.errors import InputError


class Perceptron(nn.Module):
    """One hidden layer of ReLU units on flattened images: 784-50-10 has 39,760 parameters."""

    def __init__(self, inputs: int, classes: int, hidden: int = 50):
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.output = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of images [n, c, h, w]."""
        return self.output(F.relu(self.hidden(x.flatten(1))))


class Linear(nn.Module):
    """One linear layer, which is logistic regression: a head on frozen features, 1280-10 has 12,810 parameters."""

    def __init__(self, inputs: int, classes: int):
        super().__init__()
        self.output = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of examples [n, ...]."""
        return self.output(x.flatten(1))


class Convolutional(nn.Module):
    """Three 3x3 convolutions (32, 64, 64) with two poolings and 64 hidden units, for 3x32x32.

    The network of the authors' CIFAR code and of Fraboni et al. (after McMahan et al.), 122,570
    parameters for 10 classes, without their dropout (see `ConvolutionalDropout`).
    """

    def __init__(self, classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.conv3 = nn.Conv2d(64, 64, 3)
        self.hidden = nn.Linear(1024, 64)
        self.output = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of images [n, 3, 32, 32]."""
        # ReLU after the pooling gives the same result as before it, with a quarter of the entries.
        x = F.relu(F.max_pool2d(self.conv1(x), 2))  # [n, 32, 15, 15]
        x = F.relu(F.max_pool2d(self.conv2(x), 2))  # [n, 64, 6, 6]
        x = F.relu(self.conv3(x)).flatten(1)  # [n, 1024]
        return self.output(F.relu(self.hidden(x)))


# The constants of splitmix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195), as int64: the step between the
# states of the generator, and the two factors of its finaliser.
SPLITMIX_STEP = 0x9E3779B97F4A7C15 - 2**64
SPLITMIX_FACTORS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)


def hash_int64(z: Tensor) -> Tensor:
    """Hash int64 to int64, one to one and the same on every device, by the finaliser of splitmix64 (see
    `SPLITMIX_FACTORS`)."""
    # Shifts of int64 fill with the sign: the masks make of them the shifts of uint64, which torch does not have.
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * SPLITMIX_FACTORS[0]
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * SPLITMIX_FACTORS[1]
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


class WithDropout(nn.Module):
    """A network with dropout, which is applied in training only, when `keys` are given."""

    RATE = 0.2

    def dropout(self, x: Tensor, keys: Tensor | None, layer: int) -> Tensor:
        """Apply dropout to the units x [n, c] or [n, c, h, w] of a layer; without keys, as in evaluations, return x.

        A unit becomes 0 with probability `RATE` (rounded to a multiple of 2**-16), and is divided by 1 - `RATE`
        otherwise. A hash of the example's key (int64 [n]), the layer and the unit's place decides, so that all
        backends drop the same units. One hash of 64 bits decides on four channels of a pixel: c must be a multiple of 4.
        """
        if keys is None:
            return x
        places = torch.arange(x[0].numel() // 4, device=x.device)
        words = hash_int64(hash_int64(keys + layer)[:, None] + places * SPLITMIX_STEP)
        # The int16 are uniform in [-1/2, 1/2) 2^16, and there are four in each word: a unit stays if its int16
        # is not among the lowest share `RATE` of these numbers.
        stays = words.view(torch.int16) >= round((self.RATE - 0.5) * 2**16)
        stays = stays.view(x.movedim(1, -1).shape).movedim(-1, 1)  # the order is pixel, channel
        return x * (stays / (1 - self.RATE))


class ConvolutionalDropout(WithDropout, Convolutional):
    """The network as Fraboni et al. (Section 6) train it: dropout after each convolution, no ReLU after the third.

    The layers and the dropout rate are those of their code. Their code applies dropout in evaluations too; here it is
    applied in training only.
    """

    def forward(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        """Logits [n, classes] of images [n, 3, 32, 32]; in training, `keys` int64 [n] are the examples' dropout keys."""
        x = self.dropout(F.relu(F.max_pool2d(self.conv1(x), 2)), keys, 1)
        x = self.dropout(F.relu(F.max_pool2d(self.conv2(x), 2)), keys, 2)
        x = self.dropout(self.conv3(x), keys, 3).flatten(1)
        return self.output(F.relu(self.hidden(x)))


class ConvolutionalGrey(WithDropout):
    """Two 5x5 convolutions (32, 128), each with a pooling, and three layers of 512 hidden units, for 1x28x28.

    The network that FedSampling's public code (github.com/taoqi98/FedSampling, `get_image_model`) trains on EMNIST:
    1,682,890 parameters for 10 classes. As there, dropout follows both poolings and all hidden layers, no ReLU the
    convolutions, and the weights begin as Keras's do (Glorot's uniform distribution, biases 0): with those of torch it
    hardly trains in its first 150 steps.
    """

    def __init__(self, classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5)
        self.conv2 = nn.Conv2d(32, 128, 5)
        self.hidden1 = nn.Linear(2048, 512)
        self.hidden2 = nn.Linear(512, 512)
        self.hidden3 = nn.Linear(512, 512)
        self.output = nn.Linear(512, classes)
        for layer in self.children():
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, keys: Tensor | None = None) -> Tensor:
        """Logits [n, classes] of images [n, 1, 28, 28]; in training, `keys` int64 [n] are the examples' dropout keys."""
        x = self.dropout(F.max_pool2d(self.conv1(x), 2), keys, 1)  # [n, 32, 12, 12]
        x = self.dropout(F.max_pool2d(self.conv2(x), 2), keys, 2).flatten(1)  # [n, 2048]
        for layer, hidden in enumerate((self.hidden1, self.hidden2, self.hidden3), 3):
            x = self.dropout(F.relu(hidden(x)), keys, layer)
        return self.output(x)


def _positions(length: int, like: Tensor) -> Tensor:
    """Compute the positional encoding of Vaswani et al. (arXiv:1706.03762) for positions 0..length-1, float
    [length, width], of the type and width of `like` [..., width]."""
    half = torch.arange(like.shape[-1] // 2, dtype=like.dtype, device=like.device)
    place = torch.arange(length, dtype=like.dtype, device=like.device)
    angles = place[:, None] * 1e4 ** (-half / len(half))
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class FixedVectors(nn.Module):
    """Vectors [tokens, width] of words, which are not trained and so are no parameters."""

    def __init__(self, vectors: Tensor):
        super().__init__()
        self.register_buffer("vectors", vectors)

    def forward(self, x: Tensor) -> Tensor:
        """Vectors [n, length, width] of tokens [n, length]."""
        return self.vectors[x]


def make_words(tokens: int, width: int, vectors: Tensor | None) -> tuple[nn.Module, int]:
    """Make the layer that gives each word its vector, and return the vectors' width: trained ones, or the given."""
    if vectors is None:
        return nn.Embedding(tokens, width), width
    return FixedVectors(vectors), vectors.shape[1]


class TextCNN(nn.Module):
    """Filters over 2, 3 and 4 words, the largest value of each over the document, a linear layer (Kim 2014).

    The slides of FedSampling name the network and give no sizes; here vectors of 32 numbers and 32
    filters of each length: 42,314 parameters for 1,000 words and 10 classes. A window counts if it
    begins at a word, so that padding changes nothing. `vectors` [tokens, width], if given, are the words', and
    are not trained; there are as many filters as they are wide.
    """

    def __init__(
        self,
        tokens: int,
        classes: int,
        width: int = 32,
        lengths=(2, 3, 4),
        vectors: Tensor | None = None,
    ):
        super().__init__()
        self.words, width = make_words(tokens, width, vectors)
        self.filters = nn.ModuleList(nn.Conv1d(width, width, k) for k in lengths)
        self.output = nn.Linear(width * len(lengths), classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of documents [n, length], tokens with 0 for padding."""
        is_word = (x > 0)[:, None]  # [n, 1, length]
        words = self.words(x).mT * is_word  # [n, width, length]
        maps = [F.relu(f(F.pad(words, (0, f.kernel_size[0] - 1)))) * is_word for f in self.filters]
        return self.output(torch.cat([m.amax(2) for m in maps], dim=1))


class NGram(nn.Module):
    """The neural n-gram model (Bengio et al. 2003): vectors of the last tokens, one hidden layer of ReLU units.

    With vectors of 8 numbers and 128 hidden units: 26,000 parameters for 66 characters after 16.
    """

    def __init__(self, tokens: int, length: int, classes: int, width: int = 8, hidden: int = 128):
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.hidden = nn.Linear(length * width, hidden)
        self.output = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of documents [n, length], tokens with 0 for padding."""
        return self.output(F.relu(self.hidden(self.tokens(x).flatten(1))))


class Transformer(nn.Module):
    """One encoder block (Vaswani et al. 2017) without dropout, the mean over the words, a linear layer.

    The slides of FedSampling name the network and give no sizes; here vectors of 32 numbers, two
    heads, 64 hidden units: 40,906 parameters for 1,000 words and 10 classes. No word attends to
    padding, and the mean leaves it out. `vectors` [tokens, width], of an even width, if given, are the words', and
    are not trained.
    """

    def __init__(
        self,
        tokens: int,
        classes: int,
        width: int = 32,
        heads: int = 2,
        vectors: Tensor | None = None,
    ):
        super().__init__()
        self.heads = heads
        self.words, width = make_words(tokens, width, vectors)
        self.attend, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.hidden, self.back = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.output = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, classes] of documents [n, length], tokens with 0 for padding."""
        is_word = x > 0
        words = self.words(x)
        words = words + _positions(x.shape[1], words)  # [n, length, width]
        split = self.attend(words).unflatten(2, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4)  # each [n, heads, length, width / heads]
        scores = query @ key.mT / key.shape[-1] ** 0.5
        scores = scores.masked_fill(~is_word[:, None, None], -torch.inf)
        attended = (scores.softmax(3) @ value).transpose(1, 2).flatten(2)
        words = self.norm1(words + self.joined(attended))
        words = self.norm2(words + self.back(F.relu(self.hidden(words))))
        mean = (words * is_word[..., None]).sum(1) / is_word.sum(1)[:, None]
        return self.output(mean)


def flatten(module: nn.Module) -> Tensor:
    """Concatenate the parameters of a network to one vector [P]."""
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def unflatten(module: nn.Module, params: Tensor) -> dict[str, Tensor]:
    """Return views into parameter vectors [..., P] by parameter name, each [..., *shape]."""
    sizes = [p.numel() for p in module.parameters()]
    parts = params.split(sizes, dim=-1)
    named = zip(module.named_parameters(), parts, strict=True)
    return {name: v.unflatten(-1, p.shape) for (name, p), v in named}


def output_layer(module: nn.Module, classes: int | None = None) -> slice:
    """Return the place in a parameter vector [P] of the last layer's parameters: of the layer that the module
    registers last.

    `InputError` if that cannot be the output layer of a network of so many `classes` (None: not checked): the module
    registers layers in the order in which they are defined, and not in that in which `forward` calls them.
    """
    name, last = list(module.named_parameters())[-1]
    if classes is not None and last.shape[:1] != (classes,):
        raise InputError(
            f"the design asks for the network's output layer, and the parameter defined last, {name} of shape "
            f"{list(last.shape)}, has no row for each of the {classes} classes: define the output layer last"
        )
    sizes = {name: p.numel() for name, p in module.named_parameters()}
    layer = [*sizes][-1].rpartition(".")[0]
    count = sum(size for name, size in sizes.items() if name.rpartition(".")[0] == layer)
    return slice(sum(sizes.values()) - count, sum(sizes.values()))


def class_entries(module: nn.Module, vectors, classes: int | None = None):
    """Return one number a class [N, classes] of parameter vectors [N, P]: the last layer's bias, or without one the
    mean over each class's weights; `classes` as in `output_layer`."""
    *_, last = module.parameters()
    layer = vectors[:, output_layer(module, classes)]
    return (
        layer[:, -len(last) :]
        if last.ndim == 1
        else layer.reshape(len(layer), len(last), -1).mean(2)
    )


def find_defect(module: nn.Module, x: Tensor, classes: int) -> str:
    """Return why a network cannot be trained here on examples x [n, ...], as a predicate of "the network"; "" if it can.

    Its parameters must be float32 and trainable. Its logits [n, classes] must be finite and deterministic, and those of
    an example must not depend on the other examples.
    """
    for name, p in module.named_parameters():
        if nn.parameter.is_lazy(p):
            return f"has a lazy parameter {name}: give its layer its sizes"
        if p.dtype != torch.float32:
            return f"has a parameter {name} of {p.dtype}: it must be torch.float32"
        if not p.requires_grad:
            return f"has a frozen parameter {name}, and all are trained here: make it a buffer"
    for name, layer in module.named_modules():
        place = f"in its layer {name or type(layer).__name__}"
        mixes = isinstance(layer, nn.modules.batchnorm._BatchNorm)
        if mixes and (layer.training or layer.running_mean is None):
            return f"mixes the examples of a batch {place} ({type(layer).__name__}): use GroupNorm or LayerNorm"
        if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.training and layer.p:
            return (
                f"draws at random {place} ({type(layer).__name__}), so that a run could not be made again: leave it "
                "out, or set its p to 0"
            )
    module.to(x.device)
    logits, again, of_first_two = module(x), module(x), module(x[:2])
    shape = (len(x), classes)
    if not isinstance(logits, Tensor) or tuple(logits.shape) != shape:
        wrong = tuple(getattr(logits, "shape", ())) or type(logits).__name__
        return f"makes {wrong} of {len(x)} examples: it must make {shape}, a number for each of the {classes} classes"
    if not torch.isfinite(logits).all():
        return "makes numbers that are not finite"
    if not torch.equal(logits, again):
        return "draws at random in its forward pass: a run could not be made again"
    if not torch.allclose(logits[:2], of_first_two, rtol=1e-3, atol=1e-4):
        return "mixes the examples of a batch: use GroupNorm or LayerNorm"
    return ""


def find_data_defect(module: nn.Module, x: Tensor, y: Tensor) -> str:
    """Return why a client's examples x [n, ...] with labels y [n] cannot be trained on by a network, as a sentence; ""
    if they can. No examples at all are allowed; no sentence tells how many there are."""
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        return f"x and y are {type(x).__name__} and {type(y).__name__}: they must be tensors"
    if x.dtype not in (torch.float32, torch.int64) or y.dtype != torch.int64 or y.ndim != 1:
        return f"x is {x.dtype}, y {y.dtype}: x must be float32 (documents: int64), y int64 [n]"
    if len(x) != len(y):
        return "x and y differ in length: there must be one label for each example"
    if not len(y):
        return ""
    if not torch.isfinite(x).all():
        return "x has a number that is not finite"
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            classes = module.to(x.device)(x[:2]).shape[-1]
        except (RuntimeError, IndexError, ValueError) as error:
            return f"the network does not take the examples: {' '.join(str(error).split())}"
        # Always 32 examples, so that no message tells how many there are.
        if defect := find_defect(module, x[torch.arange(32) % len(x)], classes):
            return f"the network {defect}"
    if y.min() < 0 or y.max() >= classes:
        return (
            f"a label is not in 0..{classes - 1}, the classes of the network: number them from 0 on"
        )
    return ""
