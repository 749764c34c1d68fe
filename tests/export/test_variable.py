"""A rule folded into a series of cosines says the same as the rule."""

from __future__ import annotations

import mdtraj as md
import numpy as np
import pytest

from m3c_md import DihedralFeaturizer
from m3c_md.exceptions import InputError
from m3c_md.export.columns import columns_of_frames
from m3c_md.export.torsions import torsions
from m3c_md.export.variable import check_states, collective_variable
from m3c_md.optimize.blocks import Rule
from m3c_md.optimize.feature_map import draw_fourier_map
from tests.export.conftest import Case


def test_differences_are_those_of_the_decision_function(case: Case) -> None:
    last = case.model.n_states - 1
    for pair in ((0, last), (last, 0)):
        values = case.model.collective_variable(pair).values(case.frames)
        assert np.abs(values - case.differences(*pair)).max() < 1e-10


def test_a_share_is_that_of_the_first_state_among_those_named(case: Case) -> None:
    states = tuple(range(case.model.n_states))[::-1]
    values = case.model.collective_variable(states, "membership").values(case.frames)
    powers = np.exp(2.0 * case.model.decision_function(case.frames))
    assert np.abs(values - powers[:, states[0]] / powers.sum(axis=1)).max() < 1e-10


def test_between_two_states_a_share_has_the_slope_of_memberships() -> None:
    # memberships is a projection, (1 + f_0 - f_1) / 2 between the states; so is the tangent of the share.
    feature_map = draw_fourier_map(1, 20, np.random.default_rng(0))
    rule = Rule(np.vstack([np.ones(20), np.zeros(20)]), np.zeros(2))
    share, difference = (collective_variable(feature_map, rule, (0, 1), k) for k in ("membership", "difference"))
    x = np.linspace(-3, 3, 2001)[:, None]
    border = x[np.abs(difference.values(x)).argmin()][None]
    value, slope = share.values_and_gradients(border)
    assert value[0] == pytest.approx(0.5, abs=1e-3)
    assert slope[0] == pytest.approx(0.5 * difference.values_and_gradients(border)[1][0], rel=1e-4)


@pytest.mark.parametrize("kind", ["difference", "membership"])
def test_gradients_are_those_of_finite_differences(case: Case, kind: str) -> None:
    variable = case.model.collective_variable((1, 0), kind)  # type: ignore[arg-type]
    _, gradients = variable.values_and_gradients(case.frames)
    step = 1e-5
    for column in range(variable.n_columns):
        shift = step * (np.arange(variable.n_columns) == column)
        slope = (variable.values(case.frames + shift) - variable.values(case.frames - shift)) / (2.0 * step)
        assert np.abs(slope - gradients[:, column]).max() < 1e-6


def test_cosines_of_one_frequency_are_one_term(ala2: Case) -> None:
    assert ala2.model.feature_map.n_features == 40
    assert ala2.model.collective_variable((0, 1)).n_terms == 20


def test_features_with_phases_of_their_own_remain_apart() -> None:
    rng = np.random.default_rng(1)
    feature_map = draw_fourier_map(3, 30, rng, kind="fourier", center=rng.normal(size=3))
    rule, x = Rule(rng.normal(size=(4, 30)), rng.normal(size=4)), rng.normal(size=(50, 3))
    variable = collective_variable(feature_map, rule, (3, 1), "difference")
    scores = rule.scores(feature_map(x))
    assert variable.n_terms == 30
    assert np.abs(variable.values(x) - (scores[3] - scores[1])).max() < 1e-12
    lowest, highest = variable.bounds
    assert lowest <= variable.values(x).min() <= variable.values(x).max() <= highest


def test_one_state_against_the_mean_of_others(ala10: Case) -> None:
    variable = ala10.model.collective_variable(1)
    assert (variable.states, variable.formula) == ((1, 0, 2), "f_1 - (f_0 + f_2) / 2")
    expected = 0.5 * (ala10.differences(1, 0) + ala10.differences(1, 2))
    assert np.abs(variable.values(ala10.frames) - expected).max() < 1e-10


def test_a_blur_is_the_mean_over_shifted_columns(ala2: Case) -> None:
    variable = ala2.model.collective_variable((0, 1))
    spread = np.sqrt(2.0 * 0.3 / (variable.frequencies**2).sum(axis=0).mean())
    shifts = np.random.default_rng(0).normal(scale=spread, size=(200_000, 4))
    x = ala2.frames[:2]
    means = np.array([variable.values(frame + np.concatenate([shifts, -shifts])).mean() for frame in x])
    np.testing.assert_allclose(variable.blurred(0.3).values(x), means, atol=0.01)
    np.testing.assert_array_equal(variable.blurred(0.0).amplitudes, variable.amplitudes)


@pytest.mark.parametrize(
    ("states", "kind", "words"),
    [
        ((0, 3), "difference", "there is no state 3; they are numbered 0 to 2"),
        ((0, 0), "difference", r"states=\(0, 0\) must be two or more different states"),
        ((), "membership", "must be two or more different states"),
        ((0, 1, 1), "difference", "must be two or more different states, or one"),
        ((-1, 0), "difference", "states=-1 must be a whole number of at least 0"),
        ("01", "difference", "states='01' must be a number or several"),
        (None, "difference", "states is missing: name one or two of the 3 states, e.g. 2 or"),
        ((0, 1), "argmax", "kind='argmax' is not known; choose one of 'difference', 'membership'"),
    ],
)
def test_states_that_make_no_variable_are_refused(states: object, kind: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_states(states, 3, kind)


def test_angles_are_those_of_mdtraj(case: Case) -> None:
    angles = torsions(case.trajectory.xyz.astype(np.float64), case.columns.quartets)[0]
    by_mdtraj = md.compute_dihedrals(case.trajectory, case.columns.quartets, periodic=False)
    turned = np.abs(np.angle(np.exp(1j * (angles - by_mdtraj))))
    assert turned.max() < 2e-5  # single precision, where atoms are nearly in a line


def test_angles_have_the_derivatives_of_finite_differences(ala10: Case) -> None:
    points, quartets = ala10.trajectory.xyz[:20].astype(np.float64), ala10.columns.quartets
    _, by_atom = torsions(points, quartets)
    step = 1e-6
    for place in range(4):
        for axis in range(3):
            for k, four in enumerate(quartets):
                shift = np.zeros(points.shape[1:])
                shift[four[place], axis] = step
                turned = torsions(points + shift, quartets[[k]])[0] - torsions(points - shift, quartets[[k]])[0]
                slope = np.angle(np.exp(1j * turned[:, 0])) / (2.0 * step)
                assert np.abs(slope - by_atom[:, k, place, axis]).max() < 1e-5


def test_columns_of_frames_are_those_of_the_featurizer(case: Case) -> None:
    featurized = DihedralFeaturizer().transform(case.trajectory)
    assert np.abs(case.frames - featurized).max() < 2e-5


def test_frames_of_broken_molecules_are_no_reference(ala2: Case) -> None:
    broken = ala2.trajectory[:3]
    broken.xyz[1, 7] += 2.0
    with pytest.raises(InputError, match=r"up to 3\.\d+ nm apart; give frames of whole molecules"):
        columns_of_frames(ala2.columns, broken)
