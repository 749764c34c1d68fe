"""The text for PLUMED computes the rule, by an interpreter of exactly the actions that it consists of."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from m3c_md import M3C, DihedralFeaturizer
from m3c_md.exceptions import InputError
from m3c_md.export.torsions import torsions
from tests.export.conftest import Case
from tests.export.plumed_interpreter import Plumed, run

SYNTAXES = pytest.mark.parametrize("syntax", ["vectors", "classic"])


@SYNTAXES
def test_differences_are_those_of_the_decision_function(case: Case, syntax: str) -> None:
    last = case.model.n_states - 1
    found = run(case.model.to_plumed(states=(last, 0), syntax=syntax), case.trajectory)  # type: ignore[arg-type]
    assert found.printed is not None
    assert np.abs(found.printed - case.differences(last, 0)).max() < 1e-6


@SYNTAXES
def test_shares_of_all_states_sum_to_one(ala10: Case, syntax: str) -> None:
    shares = []
    for first in range(3):
        states = (first, *(k for k in range(3) if k != first))
        text = ala10.model.to_plumed(states=states, kind="membership", syntax=syntax)  # type: ignore[arg-type]
        shares.append(run(text, ala10.trajectory).printed)
    assert np.abs(np.sum(shares, axis=0) - 1.0).max() < 1e-9
    powers = np.exp(2.0 * ala10.model.decision_function(ala10.frames))
    assert np.abs(np.array(shares).T - powers / powers.sum(axis=1, keepdims=True)).max() < 1e-6


def test_its_slopes_are_the_forces_of_the_variable(case: Case) -> None:
    text = case.model.to_plumed(states=(0, 1))
    points, quartets = case.trajectory.xyz.astype(np.float64), case.columns.quartets
    angles, by_atom = torsions(points, quartets)
    _, gradients = case.model.collective_variable((0, 1)).values_and_gradients(case.frames)
    slopes = gradients[:, 0::2] * np.cos(angles) - gradients[:, 1::2] * np.sin(angles)
    atom, step = int(quartets[-1, 1]), 1e-5
    for axis in range(3):
        shift = np.zeros(points.shape[1:])
        shift[atom, axis] = step
        numerical = (Plumed(text, points + shift).printed - Plumed(text, points - shift).printed) / (2.0 * step)  # type: ignore[operator]
        exact = sum(
            slopes[:, k] * by_atom[:, k, place, axis]
            for k, four in enumerate(quartets)
            for place in range(4)
            if four[place] == atom
        )
        assert np.abs(numerical - exact).max() < 1e-4


def test_vectors_take_a_few_lines_and_classic_uses_old_actions_only(ala10: Case) -> None:
    vectors = run(ala10.model.to_plumed(states=(0, 1)), ala10.trajectory)
    classic = run(ala10.model.to_plumed(states=(0, 1), syntax="classic"), ala10.trajectory)
    assert len(vectors.actions) <= 14
    assert set(classic.actions) == {"TORSION", "CUSTOM", "COMBINE", "PRINT"}


def test_reference_values_stand_in_the_text(ala2: Case) -> None:
    text = ala2.model.to_plumed(states=(0, 2), trajectory=ala2.trajectory)
    rows = re.findall(r"^# +(\d+) +(-?\d+\.\d{8})$", text, re.MULTILINE)
    assert [int(frame) for frame, _ in rows] == [0, 49, 99, 149, 199]
    expected = ala2.differences(0, 2)
    assert all(abs(float(value) - expected[int(frame)]) < 1e-8 for frame, value in rows)
    assert "No reference values" in ala2.model.to_plumed(states=(0, 2))


def test_it_says_what_it_is_in_which_units_and_about_which_atoms(ala2: Case) -> None:
    text = ala2.model.to_plumed(states=(0, 2))
    assert "m3c_0_2 = f_0 - f_2" in text
    assert "Angles are in radians" in text
    assert "# angle 1: phi ALA 2 (ACE 1 C, ALA 2 N, ALA 2 CA, ALA 2 C)" in text
    assert "TORSION ATOMS1=5,7,8,9 ATOMS2=7,8,9,17\n" in text
    assert text.endswith("PRINT ARG=m3c_0_2 FILE=COLVAR STRIDE=1 FMT=%14.8f\n")


def test_nopbc_is_what_the_featurizer_does(ala2: Case) -> None:
    assert "# NOPBC is not set" in ala2.model.to_plumed(states=(0, 2))
    whole = replace(ala2.columns, periodic=False)
    for syntax in ("vectors", "classic"):
        text = ala2.model.to_plumed(whole, (0, 2), syntax=syntax)  # type: ignore[arg-type]
        assert "# NOPBC: coordinates are taken as they are" in text
        torsions_of_text = [line for line in text.splitlines() if " TORSION " in line]
        assert all(line.endswith(" NOPBC") for line in torsions_of_text)


def test_two_variables_fit_into_one_input(ala2: Case) -> None:
    texts = [ala2.model.to_plumed(states=(0, 1)), ala2.model.to_plumed(states=(0, 2))]
    texts += [ala2.model.to_plumed(states=(0, 1, 2), kind="membership", syntax="classic")]
    found = run("\n".join(texts), ala2.trajectory)  # labels that are there twice are an error
    assert {"m3c_0_1", "m3c_0_2", "m3c_share_0_1_2"} <= set(found.values)


@SYNTAXES
def test_columns_of_ones_own_go_by_their_labels(syntax: str) -> None:
    rng = np.random.default_rng(0)
    side = np.repeat([-1.0, 1.0] * 20, 25)
    x = np.column_stack([side, 10.0 * rng.normal(size=1000), 0.1 * side]) + 0.2 * rng.normal(size=(1000, 3))
    model = M3C(2, random_state=0, n_features=20).fit_fetch(x)
    text = model.to_plumed(["d1", "d2.x", "e"], syntax=syntax, trajectory=x[:7])  # type: ignore[arg-type]
    known = dict(zip(["d1", "d2.x", "e"], x.T, strict=True))
    scores = model.decision_function(x)
    printed = Plumed(text, np.zeros((1000, 1, 3)), **known).printed
    assert np.abs(printed - (scores[:, 0] - scores[:, 1])).max() < 1e-6  # type: ignore[operator]
    assert "Define these above, in the units of the fit: d1, d2.x, e" in text
    assert f"{scores[0, 0] - scores[0, 1]:18.8f}" in text


@SYNTAXES
def test_a_single_angle_or_column_works_in_both(syntax: str) -> None:
    x = np.repeat([-1.0, 1.0] * 20, 25) + 0.1 * np.random.default_rng(0).normal(size=1000)
    model = M3C(2, random_state=0, n_features=20).fit_fetch(x)
    scores = model.decision_function(x)
    printed = Plumed(model.to_plumed(["d"], syntax=syntax), np.zeros((1000, 1, 3)), d=x).printed  # type: ignore[arg-type]
    assert np.abs(printed - (scores[:, 0] - scores[:, 1])).max() < 1e-6  # type: ignore[operator]


def test_states_go_by_their_names_too(ala2: Case) -> None:
    named = ala2.model.rename({0: "extended", 2: "left-handed"})
    assert named.to_plumed(states="left-handed").splitlines()[0].startswith("# m3c_2_0_1 = f_2 - (f_0 + f_1) / 2")
    assert named.to_plumed(states=("extended", 2)) == named.to_plumed(states=(0, 2))
    with pytest.raises(InputError, match="state='coil': there is no such state; they are called"):
        named.to_plumed(states="coil")


class TestRefusals:
    def test_a_model_without_atoms_says_what_to_give(self, ala2: Case) -> None:
        model = ala2.model.copy()
        model.dihedral_columns = None
        with pytest.raises(InputError, match=r"does not know which atoms.*give the DihedralFeaturizer of the fit"):
            model.to_plumed(states=(0, 1))

    def test_a_featurizer_that_has_seen_no_molecule(self, ala2: Case) -> None:
        with pytest.raises(InputError, match="knows no molecule yet; give a topology, or load"):
            ala2.model.to_plumed(DihedralFeaturizer(), (0, 1))

    def test_a_featurizer_of_other_columns(self, ala2: Case, ala10: Case) -> None:
        with pytest.raises(InputError, match=r"there are 36 columns .* fitted to 4; give the featurizer of the fit"):
            ala2.model.to_plumed(ala10.columns, (0, 1))
        other = replace(ala2.columns, names=("phi ALA 3", "psi ALA 3"))
        with pytest.raises(InputError, match="is 'sin phi ALA 3', but the model was fitted to 'sin phi ALA 2'"):
            ala2.model.to_plumed(other, (0, 1))

    def test_a_rule_on_plain_angles_jumps(self, ala2: Case) -> None:
        angles = replace(ala2.columns, sincos=False, names=("phi ALA 2", "psi ALA 2", "omega ALA 2", "chi1 ALA 2"))
        model = ala2.model.copy()
        model.columns = None
        with pytest.raises(InputError, match="jumps where an angle passes from π to -π"):
            model.to_plumed(angles, (0, 1))

    @pytest.mark.parametrize("featurizer", ["phi", 3, np.zeros((2, 4))])
    def test_what_is_no_featurizer(self, ala2: Case, featurizer: object) -> None:
        with pytest.raises(InputError, match="must be the DihedralFeaturizer of the fit"):
            ala2.model.to_plumed(featurizer, (0, 1))

    def test_labels_that_are_none_or_too_few(self, ala2: Case) -> None:
        with pytest.raises(InputError, match="3 labels for 4 columns of the model; give one for each"):
            ala2.model.to_plumed(["a", "b", "c"], (0, 1))
        with pytest.raises(InputError, match="'a b' is no label of PLUMED"):
            ala2.model.to_plumed(["a b", "b", "c", "d"], (0, 1))

    def test_settings_and_trajectories(self, ala2: Case, ala10: Case) -> None:
        with pytest.raises(InputError, match="syntax='tcl' is not known"):
            ala2.model.to_plumed(states=(0, 1), syntax="tcl")  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"must be an mdtraj\.Trajectory with its topology"):
            ala2.model.to_plumed(states=(0, 1), trajectory=ala2.frames)
        with pytest.raises(InputError, match="the topology has no atom 'ACE 1 C'"):
            ala2.model.to_plumed(states=(0, 1), trajectory=ala10.trajectory)
        with pytest.raises(InputError, match="trajectory has 2 columns, but the model was fitted to 4"):
            ala2.model.to_plumed(["a", "b", "c", "d"], (0, 1), trajectory=np.zeros((3, 2)))

    def test_a_trajectory_without_frames(self, ala2: Case) -> None:
        with pytest.raises(InputError, match="the trajectory has no frames; give one that has"):
            ala2.model.to_plumed(states=(0, 1), trajectory=ala2.trajectory[:0])
