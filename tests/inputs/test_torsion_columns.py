"""Angles are found by the names of their columns, whatever else stands between these."""

from __future__ import annotations

import numpy as np
import pytest

from m3c_md.exceptions import InputError
from m3c_md.inputs.torsion_columns import Torsions

DEGREES = np.random.default_rng(0).uniform(-180.0, 180.0, (50, 4))
NAMES = ["phi ALA 2", "psi ALA 2", "phi ALA 3", "psi ALA 3"]


def shuffled() -> tuple[list[str], np.ndarray]:
    """Sines, then cosines, then something else, in an order of their own."""
    radians = np.radians(DEGREES)
    columns = [f"{function} {name}" for function in ("sin", "cos") for name in NAMES] + ["distance"]
    frames = np.column_stack([np.sin(radians), np.cos(radians), np.ones(len(radians))])
    order = np.random.default_rng(1).permutation(9)
    return [columns[i] for i in order], frames[:, order]


def test_angles_come_back_from_sines_and_cosines_in_any_order() -> None:
    columns, frames = shuffled()
    torsions = Torsions.among(columns)
    found = np.degrees(torsions.of_frames(frames))
    assert sorted(torsions.names) == sorted(NAMES)
    assert set(torsions.pairs) == {"ALA 2", "ALA 3"}
    for residue, first in (("ALA 2", 0), ("ALA 3", 2)):
        np.testing.assert_allclose(found[:, torsions.pairs[residue]], DEGREES[:, first : first + 2], atol=1e-9)


def test_angles_come_back_from_radians() -> None:
    torsions = Torsions.of_all(NAMES)
    np.testing.assert_allclose(np.degrees(torsions.of_frames(np.radians(DEGREES))), DEGREES, atol=1e-9)


def test_slopes_are_derivatives() -> None:
    columns, frames = shuffled()
    torsions = Torsions.among(columns)
    weights = np.random.default_rng(2).normal(size=9)
    radians = torsions.of_frames(frames)

    def value(angles: np.ndarray) -> np.ndarray:
        moved = frames.copy()
        for number, (sine, cosine) in enumerate(torsions.places):
            moved[:, sine], moved[:, cosine] = np.sin(angles[:, number]), np.cos(angles[:, number])
        return moved @ weights

    slopes = torsions.slopes(np.tile(weights, (len(frames), 1)), radians)
    for number, step in enumerate(1e-6 * np.eye(4)):
        difference = (value(radians + step) - value(radians - step)) / 2e-6
        np.testing.assert_allclose(slopes[:, number], difference, atol=1e-8)


def test_columns_that_are_not_a_featurizers_are_refused_where_all_must_be() -> None:
    for wrong in (shuffled()[0], ["sin phi ALA 2"], ["cos phi ALA 2", "sin phi ALA 2"], ["distance"]):
        with pytest.raises(InputError, match="are not those of a DihedralFeaturizer in their order"):
            Torsions.of_all(wrong)
    assert Torsions.among(["sin phi ALA 2", "distance", 3]).names == []
