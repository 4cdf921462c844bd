"""Well-known networks, small and written plainly, whose paths can be counted by hand."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Basic(nn.Module):
    """ResNet's block: two convolutions, parallel to an identity or a convolution with stride."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.short = None
        if stride > 1:
            convolution = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.short = nn.Sequential(convolution, nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.short is None else self.short(x)
        return F.relu(out, inplace=True)


class ResNet(nn.Module):
    """A stem, four stages of blocks, a readout; (2, 2, 2, 2) is ResNet-18."""

    def __init__(self, blocks=(2, 2, 2, 2), width=4, channels=3):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        )
        layers, inputs = [], width
        for stage, count in enumerate(blocks):
            for block in range(count):
                outputs = width * 2**stage
                layers.append(Basic(inputs, outputs, 2 if stage and not block else 1))
                inputs = outputs
        self.blocks = nn.Sequential(*layers)
        self.readout = nn.Linear(inputs, 10)

    def forward(self, x):
        return self.readout(self.blocks(self.stem(x)).mean((2, 3)))


class DenseNet(nn.Module):
    """A stem and one dense block: every layer reads all that came before."""

    def __init__(self, layers=3, growth=4):
        super().__init__()
        self.stem = nn.Conv2d(3, growth, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(growth * (i + 1)) for i in range(layers))
        self.layers = nn.ModuleList(
            nn.Conv2d(growth * (i + 1), growth, 3, 1, 1, bias=False) for i in range(layers)
        )
        self.last = nn.BatchNorm2d(growth * (layers + 1))
        self.readout = nn.Linear(growth * (layers + 1), 10)

    def forward(self, x):
        parts = [self.stem(x)]
        for norm, layer in zip(self.norms, self.layers, strict=True):
            parts.append(layer(F.relu(norm(torch.cat(parts, 1)))))
        return self.readout(F.relu(self.last(torch.cat(parts, dim=1))).mean((2, 3)))


class MobileNet(nn.Module):
    """Inverted residuals: a wide, a depthwise and a narrow layer, parallel to an identity."""

    def __init__(self, blocks=2, width=4):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width))
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, 4 * width, 1, bias=False),
                nn.BatchNorm2d(4 * width),
                nn.ReLU6(),
                nn.Conv2d(4 * width, 4 * width, 3, 1, 1, groups=4 * width, bias=False),
                nn.BatchNorm2d(4 * width),
                nn.ReLU6(),
                nn.Conv2d(4 * width, width, 1, bias=False),
                nn.BatchNorm2d(width),
            )
            for _ in range(blocks)
        )
        self.dropout = nn.Dropout(0.2)
        self.readout = nn.Linear(width, 10)

    def forward(self, x):
        x = F.relu6(self.stem(x))
        for block in self.blocks:
            x = x + block(x)
        return self.readout(self.dropout(F.adaptive_avg_pool2d(x, 1).flatten(1)))


class UNet(nn.Module):
    """U-Net with one level: down, up by a transposed convolution, and a concatenated skip."""

    def __init__(self, width=4):
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.merge = nn.Conv2d(2 * width, width, 3, padding=1)
        self.readout = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        fine = F.relu(self.enter(x))
        coarse = F.relu(self.down(F.max_pool2d(fine, 2)))
        merged = F.relu(self.merge(torch.cat([fine, self.up(coarse)], dim=1)))
        return self.readout(merged)


class Mixer(nn.Module):
    """MLP-Mixer: patches, then layers across positions and layers across channels."""

    def __init__(self, blocks=2, width=8, tokens=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 2, stride=2)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * blocks + 1))
        sizes = [tokens, width] * blocks
        self.mixers = nn.ModuleList(
            nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))
            for size in sizes
        )
        self.readout = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        for place, mixer in enumerate(self.mixers):
            y = self.norms[place](x)
            x = x + (mixer(y) if place % 2 else mixer(y.transpose(1, 2)).transpose(1, 2))
        return self.readout(self.norms[-1](x).mean(1))


IMAGES = torch.zeros(2, 3, 8, 8)


class Attention(nn.Module):
    """Two heads; one packed projection or three; softmax written out or torch's own function."""

    def __init__(self, width: int, *, packed: bool, written: bool, bias: bool = True):
        super().__init__()
        self.packed, self.written = packed, written
        if packed:
            self.qkv = nn.Linear(width, 3 * width, bias=bias)
        else:
            self.q, self.k, self.v = (nn.Linear(width, width, bias=bias) for _ in range(3))
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        parts = self.qkv(x).chunk(3, dim=-1) if self.packed else (self.q(x), self.k(x), self.v(x))
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in parts)
        if self.written:
            scores = q @ k.transpose(-2, -1) / k.shape[-1] ** 0.5
            mixed = torch.softmax(scores, dim=-1) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Former(nn.Module):
    """Embedding, pre-norm blocks of attention and an MLP, the mean over positions, a readout."""

    def __init__(self, width=8, blocks=2, *, packed=False, written=False, bias=True, classes=3):
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.positions = nn.Parameter(torch.zeros(6, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * blocks + 1))
        self.attention = nn.ModuleList(
            Attention(width, packed=packed, written=written, bias=bias) for _ in range(blocks)
        )
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(blocks)
        )
        self.readout = nn.Linear(width, classes)

    def forward(self, words):
        x = self.embed(words) + self.positions
        for place, (attention, mlp) in enumerate(zip(self.attention, self.mlp, strict=True)):
            x = x + attention(self.norms[2 * place](x))
            x = x + mlp(self.norms[2 * place + 1](x))
        return self.readout(self.norms[-1](x).mean(1))


class RMSNorm(nn.Module):
    """RMS normalisation, written as arithmetic, as in Llama, Qwen3, T5 and Mamba."""

    def __init__(self, width: int):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), 1e-6

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + self.eps))


class Llama(nn.Module):
    """Transformer with rotary positions and SwiGLU.

    RMS norms are located before and after each branch, and after the layers of queries and keys.
    """

    def __init__(self, width=8, blocks=2, words=11):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(6 * blocks + 1))
        names = ("q", "k", "v", "out", "gate", "up", "down")
        self.blocks = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(width, width, bias=False) for name in names})
            for _ in range(blocks)
        )
        self.readout = nn.Linear(width, words, bias=False)

    def forward(self, words):
        x = self.embed(words)
        for place, block in enumerate(self.blocks):
            norms = self.norms[6 * place : 6 * place + 6]
            y = norms[0](x)
            q, k = (self.turned(norms[i](block[name](y))) for i, name in ((1, "q"), (2, "k")))
            mixed = F.scaled_dot_product_attention(q, k, block["v"](y), is_causal=True)
            x = x + norms[3](block["out"](mixed))
            y = norms[4](x)
            x = x + norms[5](block["down"](F.silu(block["gate"](y)) * block["up"](y)))
        return self.readout(self.norms[-1](x))

    def turned(self, x):
        """Return queries or keys with rotary positions: pairs of channels are rotated."""
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] / torch.arange(1, 2 * half + 1)
        crossed = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * angles.cos() + crossed * angles.sin()


class Excited(nn.Module):
    """Convolutions whose channels are weighed by a squeeze-and-excitation gate."""

    def __init__(self, width=4):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.squeeze, self.excite = nn.Linear(width, width), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
        self.readout = nn.Linear(width, 10)

    def forward(self, x):
        x = self.conv(torch.relu(self.norms[0](self.stem(x))))
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean((2, 3))))))
        x = self.norms[1](x * gate[:, :, None, None])
        return self.readout(torch.relu(x).mean((2, 3)))


class Net(nn.Module):
    """Four square layers, which the function `body` of a test connects, and a readout `last`."""

    def __init__(self, body, **modules):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(4, 4, bias=False) for _ in range(4))
        self.last = nn.Linear(4, 2)
        self.body = body
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, x):
        return self.last(self.body(self, x))
