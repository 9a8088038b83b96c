"""What a sum of shares of discrete noise is worth, in one continuous Gaussian and a little epsilon.

Each of n clients adds a discrete Gaussian of variance v to integers; nobody sees less than the sum. In three steps:

1. the sum of n draws is nearly one discrete Gaussian of variance n v (`sum_divergence`);
2. that one is nearly what is made, without the data, of a continuous Gaussian of variance n v - 2
   (`lattice_divergence`), which is what `fedgraft.secrets.accountant` counts;
3. nearly means that no probability differs by more than a factor of e**h, in either direction: where one mechanism has
   (epsilon, delta), the other has (epsilon + 2 h, e**h delta). h is the divergence; over rounds it adds.
"""

import math
from fractions import Fraction

from fedgraft.errors import require
from fedgraft.secrets.discrete_gaussian import variance_of

GIVEN_UP = 2
"""Squared steps of variance that the way from the lattice to the continuous Gaussian costs."""
_LEAST = Fraction(1, 4)
"""Of a share's variance for which the bound of the sum holds."""


def divergence(variance: Fraction, shares: int, dimension: int) -> float:
    """Return what one release of a sum adds to h above: steps 1 and 2, over all coordinates.

    Args:
        variance: of one share, in squared steps, >= 1/4.
        shares: that are in the sum, >= 1, with a variance of more than 2 squared steps together.
        dimension: integers in the sum, >= 1.
    """
    return sum_divergence(variance, shares, dimension) + lattice_divergence(shares * variance, dimension)


def sum_divergence(variance: Fraction, shares: int, dimension: int) -> float:
    """Return the most that |log(P[sum of n draws of variance v] / P[one draw of variance n v])| can be.

    Source: Kairouz, Liu, Steinke, "The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure
        Aggregation", ICML 2021: 5 d times the sum of exp(-2 pi**2 v k / (k + 1)) over k = 1 ... n - 1. Their tau is
        twice that for one coordinate: both of two neighbouring data sets count.

    Args:
        variance: of one share, in squared steps, >= 1/4. From 4 on the result is below 1e-16 n d.
        shares: n, >= 1.
        dimension: d, >= 1.
    """
    require(variance >= _LEAST, "The variance of a share of noise", ">= 1/4", variance)
    require(shares >= 1, "The number of shares of noise", ">= 1", shares)
    require(dimension >= 1, "The number of coordinates", ">= 1", dimension)
    terms = (math.exp(-2 * math.pi**2 * float(variance) * k / (k + 1)) for k in range(1, shares))
    return 5 * dimension * math.fsum(terms)


def lattice_divergence(variance: Fraction, dimension: int) -> float:
    """Return the most that |log(P[discrete Gaussian] / P[what is made of a continuous one])| can be.

    Source: ours, by the convolution of Peikert, CRYPTO 2010. Of y ~ N(x, v - 2) draw an integer z with probability
        proportional to exp(-(z - y)**2 / 4). The integral over y of both densities is that of N(x, v) at z, but for the
        factor that makes probabilities of z for given y sum to one, which lies within 1 +- e with
        e = 2 sum over k >= 1 of exp(-2 pi**2 2 k**2) = 1.4e-17 (Poisson's summation); and for a whole x the discrete
        Gaussian's own lies in [1, 1 + e]. So 2 e, about, for each coordinate.

    Args:
        variance: of the discrete Gaussian, in squared steps, > 2.
        dimension: coordinates, >= 1.
    """
    require(variance > GIVEN_UP, "The variance of a sum's noise", f"> {GIVEN_UP} squared steps", variance)
    require(dimension >= 1, "The number of coordinates", ">= 1", dimension)
    e = 2 * sum(math.exp(-2 * math.pi**2 * GIVEN_UP * k * k) for k in (1, 2))
    return dimension * (math.log1p(e) - math.log1p(-e))


def noise_multiplier(variance: Fraction, shares: int, sensitivity: float) -> float:
    """Return the deviation of the continuous Gaussian behind a sum of shares, in units of the sensitivity.

    Args:
        variance: of one share, in squared steps.
        shares: that are in the sum, more than 2 squared steps of variance together.
        sensitivity: the most that one unit changes the sum of integers, Euclidean, in steps, > 0.
    """
    require(
        shares * variance > GIVEN_UP, "The variance of a sum's noise", f"> {GIVEN_UP} squared steps", shares * variance
    )
    require(sensitivity > 0, "The sensitivity of a sum", "> 0 steps", sensitivity)
    return math.sqrt(shares * variance - GIVEN_UP) / sensitivity


def share_variance(noise: float, shares: int, sensitivity: float) -> Fraction:
    """Return the variance of each share, in squared steps, for which `noise_multiplier` is at least `noise`.

    Args:
        noise: deviation of the continuous Gaussian in units of the sensitivity, > 0.
        shares: that will be in the sum at least, >= 1: (1 - f) n of n clients of whom a share f may be dead or collude.
        sensitivity: in steps, > 0.
    """
    require(0 < noise < math.inf, "The noise of a sum", "> 0 and finite", noise)
    require(shares >= 1, "The number of shares of noise", ">= 1", shares)
    require(0 < sensitivity < math.inf, "The sensitivity of a sum", "> 0 steps and finite", sensitivity)
    return max(_LEAST, variance_of(math.sqrt(((noise * sensitivity) ** 2 + GIVEN_UP) / shares)))
