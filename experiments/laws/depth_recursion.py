"""E[(dz_l)^2] of one step in ReLU MLPs, exactly: at infinite width, at any widths, and as printed.

The setting is as in `depth`; the derivations are in `docs/explanation/laws.md`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

# Sources of the two factors of (dz_l)^2: both from the weights of layer l (A); one from these
# weights and one from earlier layers (B); both from earlier layers (C).
TERMS = ("own", "cross", "passed")
RATIOS = (1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)


def infinite_width_moment(layer: int) -> float:
    """Return lim E[(dz_l)^2] / eta^2 = l (2 l^2 + 1) / 6, at infinite width."""
    return layer * (2 * layer**2 + 1) / 6


def infinite_width_terms(layer: int) -> tuple[float, float, float]:
    """Return our A_l, B_l and C_l of E[(dz_l)^2] / eta^2 at infinite width; see TERMS."""
    return 0.5, layer - 1.0, infinite_width_moment(layer - 1) + (layer - 1.0) ** 2


def unequal_width_moment(widths: Sequence[int]) -> float:
    """Return the limit of E[(dz_L)^2] / eta^2 as all widths grow in fixed ratios.

    (S_L^2 / (2 n_L) + sum_{k<L} S_k^2 / n_k) / n_L, S_k = n_0 + .. + n_(k-1).

    Args:
        widths: of the input and of every layer, n_0 .. n_L.
    """
    before, noise = widths[0], 0.0
    for width in widths[1:-1]:
        noise += before**2 / width
        before += width
    return (before**2 / (2 * widths[-1]) + noise) / widths[-1]


def finite_width_terms(widths: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return the exact A_l, B_l and C_l of E[(dz_l)^2] / eta^2 for l = 1..L, at any widths.

    Five moments of the gated kernel K = sum_mu (dz_i/dmu)(dz_j/dmu) and the squared activation
    norm M close under one layer: E M^2, E M tr K, E a'Ka, E (tr K)^2 and E ||K||_F^2.

    Args:
        widths: of the input and of every layer, n_0 .. n_L; the input has the squared norm n_0.

    Returns:
        An array (layer, term), in the order of TERMS.
    """
    mm, mt, aka, tt, ff = float(widths[0] ** 2), 0.0, 0.0, 0.0, 0.0
    terms = []
    for fan_in, n in itertools.pairwise(widths):
        s = 2 / fan_in
        on, pairs = n / 2, n * (n - 1) / 4  # active units; ordered pairs of different active units
        passed = s * s * (tt + 2 * ff)  # E (w'Kw)^2
        diagonal = mm + 2 * s * mt + passed  # E K_ii^2 of the next layer
        off = n * (n - 1) * s * s * ff
        # The gradient after the layer has E b_i b_j = delta_ij D_i / (n n_L).
        terms.append(np.array([n * mm, n * 2 * s * mt, n * passed + off]) / n**2)
        own = s * mm + s * s * (mt + 2 * aka)  # E z_i^2 K_ii
        mm, mt, aka, tt, ff = (
            (3 * on + pairs) * s * s * mm,
            on * own + pairs * s * (mm + s * mt),
            on * own + pairs * s * s * aka,
            on * diagonal + pairs * (mm + 2 * s * mt + s * s * tt),
            on * diagonal + pairs * s * s * ff,
        )
    return np.array(terms) / (2 * widths[-1])


def moments_at_ratio(depth: int) -> pd.DataFrame:
    """Return the exact E[(dz_L)^2] / eta^2, divided by L^3 / 3, for several widths n.

    Columns: ratio (L / n), width, over_cube.
    """
    rows = []
    for ratio in RATIOS:
        width = round(depth / ratio)
        moment = float(finite_width_terms([width] * (depth + 1))[-1].sum())
        rows.append({"ratio": ratio, "width": width, "over_cube": moment / (depth**3 / 3)})
    return pd.DataFrame(rows)


def printed_moment(layer: int) -> float:
    """Return the sum of the recursion printed by Jelassi et al. (2023), at infinite width.

    Their equations 2.2 and 2.11 omit E[relu'^2] = 1/2, which doubles every term. Equation 2.19
    uses E[D_k D_k'] = 1/4 also for k = k', where it is 1/2. This halves the part not along the
    gradient: l^2 + sum_{k<l} k^2 = l (l + 1) (2 l + 1) / 6 instead of l (2 l^2 + 1) / 6.
    """
    return layer * (layer + 1) * (2 * layer + 1) / 6
