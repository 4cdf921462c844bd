"""Well-known networks, small and written plainly, whose paths can be counted by hand."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Basic(nn.Module):
    """ResNet's block: two convolutions beside an identity or a convolution with stride."""

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
    """Inverted residuals: widen, a depthwise convolution, narrow, beside an identity."""

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
    """One level: down, up by a transposed convolution, and what was there before beside it."""

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


class Transformer(nn.Module):
    """Pre-norm blocks of attention and an MLP, with learned positions."""

    def __init__(self, blocks=2, width=8, tokens=6, words=11):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.positions = nn.Parameter(torch.zeros(tokens, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * blocks + 1))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(blocks))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        self.wide = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(blocks))
        self.narrow = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(blocks))
        self.readout = nn.Linear(width, words, bias=False)

    def forward(self, words):
        x = self.embed(words) + self.positions
        for place, qkv in enumerate(self.qkv):
            q, k, v = qkv(self.norms[2 * place](x)).chunk(3, dim=-1)
            x = x + self.out[place](F.scaled_dot_product_attention(q, k, v, is_causal=True))
            hidden = F.gelu(self.wide[place](self.norms[2 * place + 1](x)))
            x = x + self.narrow[place](hidden)
        return self.readout(self.norms[-1](x))


IMAGES = torch.zeros(2, 3, 8, 8)
# The paths of attention: a value passes, and what weighs it has none.
VALUES = {"scaled_dot_product_attention": [(), (), (1,)]}
