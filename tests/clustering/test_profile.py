"""Profiles of states: known torsions of real molecules, planted differences, and what is left out in words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import circmean, circstd

from m3c_md import M3C, DihedralFeaturizer, KMedoids, M3CModel, state_profile
from m3c_md.data import MolecularData, alanine_dipeptide, deca_alanine
from m3c_md.exceptions import InputError, M3CWarning
from m3c_md.inputs.dihedral_names import column_names
from tests.conftest import quick


def planted(seed: int, separating: tuple[float, ...], n_frames: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Angles in radians that turn by so many degrees from the first to the second state; and the states."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.random(n_frames) < 0.02) % 2
    angles = np.radians(170.0 + np.outer(states, separating)) + 0.35 * rng.normal(size=(n_frames, len(separating)))
    return (angles + np.pi) % (2.0 * np.pi) - np.pi, states


def columns_of(angles: np.ndarray) -> np.ndarray:
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(angles), -1)


NAMES = ["phi ALA 2", "psi ALA 2", "phi ALA 3"]
COLUMNS = column_names(NAMES, sincos=True)


class TestPlantedDifferences:
    def test_the_angle_that_turns_is_named_and_the_others_are_not(self) -> None:
        angles, states = planted(0, (0.0, 150.0, 0.0))
        x = columns_of(angles)
        model = quick(2).fit_fetch(x)
        profile = state_profile(model, COLUMNS, x)
        assert profile.borders.iloc[0]["dihedral"] == "psi ALA 2"
        assert profile.borders.iloc[0]["share"] > 0.95
        own, other = profile.borders.iloc[0][["mean", "other mean"]]
        first = int(np.bincount(states, minlength=2).argmax())
        assert abs((own - (170.0, -40.0)[first] + 180.0) % 360.0 - 180.0) < 3.0
        assert abs((other - (-40.0, 170.0)[first] + 180.0) % 360.0 - 180.0) < 3.0

    def test_two_angles_that_turn_alike_share_alike(self) -> None:
        x = columns_of(planted(1, (100.0, 100.0, 0.0))[0])
        shares = state_profile(quick(2).fit_fetch(x), COLUMNS, x).borders.set_index("dihedral")["share"]
        assert shares["phi ALA 3"] < 0.05
        assert 0.35 < shares["phi ALA 2"] < 0.65

    def test_shares_are_squared_slopes_along_the_circle_times_variance(self) -> None:
        angles, _ = planted(2, (120.0, 60.0, 0.0))
        x = columns_of(angles)
        model = quick(2).fit_fetch(x)
        profile = state_profile(model, COLUMNS, x)
        near = np.argsort(model.margin(x), kind="stable")[:1000]
        near = near[model.margin(x)[near] < 1.0]
        step = 1e-5
        expected = np.empty(3)
        vectors = [np.exp(1j * angles[model.transform(x) == state]).mean(axis=0) for state in range(2)]
        for angle in range(3):
            ahead, behind = angles[near].copy(), angles[near].copy()
            ahead[:, angle] += step
            behind[:, angle] -= step
            scores = [model.decision_function(columns_of(one)) @ [1.0, -1.0] for one in (ahead, behind)]
            slope = (scores[0] - scores[1]) / (2.0 * step)
            expected[angle] = (slope**2).mean() * (1.0 - abs(0.5 * (vectors[0] + vectors[1])[angle]) ** 2)
        found = profile.borders.set_index("dihedral").loc[NAMES, "share"].to_numpy()
        np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-5)
        assert profile.borders["frames"].iloc[0] == np.count_nonzero(model.margin(x) < 1.0)

    def test_states_that_were_merged_or_split_have_borders_too(self) -> None:
        rng = np.random.default_rng(6)
        hidden = np.cumsum(rng.random(3000) < 0.03) % 3
        turns = np.radians([[-120.0, -40.0, 60.0], [120.0, -40.0, 60.0], [0.0, 120.0, 60.0]])
        angles = turns[hidden] + [0.35, 0.6, 0.35] * rng.normal(size=(3000, 3))  # some frames lie between two ψ
        angles[hidden == 2, 0] = rng.uniform(-np.pi, np.pi, np.count_nonzero(hidden == 2))  # φ tells nothing there
        x = columns_of(angles)
        model = quick(3).fit_fetch(x)
        alike = [int(np.bincount(model.transform(x)[hidden == state]).argmax()) for state in (0, 1)]
        merged = model.merge([alike], x)
        profile = state_profile(merged, COLUMNS, x)
        assert profile.n_states == 2
        assert profile.borders.iloc[0]["dihedral"] == "psi ALA 2"
        assert profile.angles.loc[(0, "phi ALA 2"), "spread"] > 60.0
        again = state_profile(merged.split(0, 2, x, bandwidth=1.0, starts=("kinetic",), random_state=0), COLUMNS, x)
        parts = again.borders[(again.borders["state"] == 0) & (again.borders["neighbour"] == 2)]
        assert parts.iloc[0]["dihedral"] == "phi ALA 2"
        assert parts.iloc[0]["share"] > 0.8

    def test_means_and_spreads_are_circular(self) -> None:
        angles, _ = planted(3, (0.0, 150.0, 30.0))
        x = columns_of(angles)
        model = quick(2).fit_fetch(x)
        table = state_profile(model, COLUMNS, x).angles
        labels = model.transform(x)
        for state in range(2):
            inside = angles[labels == state]
            for number, name in enumerate(NAMES):
                mean, spread = (np.degrees(f(inside[:, number], np.pi, -np.pi)) for f in (circmean, circstd))
                np.testing.assert_allclose(table.loc[(state, name)], [mean, spread], rtol=1e-6)

    def test_angles_themselves_as_columns(self) -> None:
        angles = planted(4, (0.0, 150.0, 0.0))[0] * 0.5  # away from ±π, where a rule on angles would jump
        model = quick(2).fit_fetch(angles)
        profile = state_profile(model, NAMES, angles)
        assert profile.borders.iloc[0]["dihedral"] == "psi ALA 2"
        labels = model.transform(angles)
        expected = np.degrees(circmean(angles[labels == 0, 1], np.pi, -np.pi))
        np.testing.assert_allclose(profile.angles.loc[(0, "psi ALA 2"), "mean"], expected, rtol=1e-6)

    def test_lists_blocks_and_one_array_say_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x = columns_of(planted(5, (0.0, 150.0, 0.0))[0])
        model = quick(2).fit_fetch(x)
        whole = state_profile(model, COLUMNS, x)
        monkeypatch.setattr("m3c_md.inputs.dataset.FRAMES_AT_ONCE", 300)
        parts = state_profile(model, COLUMNS, [x[:1001], x[1001:]])
        for name in ("angles", "borders", "residues"):
            pd.testing.assert_frame_equal(getattr(whole, name), getattr(parts, name))
        np.testing.assert_array_equal(whole.maps["ALA 2"], parts.maps["ALA 2"])


@pytest.fixture(scope="module")
def dipeptide() -> MolecularData:
    return alanine_dipeptide()


@pytest.fixture(scope="module")
def three_states(dipeptide: MolecularData) -> M3CModel:
    model: M3CModel = M3C(3, bandwidth=1.0, starts=("kinetic",), random_state=0).fit_fetch(dipeptide.features[:6])
    return model


class TestAlanineDipeptide:
    def test_known_torsions_are_named(self, dipeptide: MolecularData, three_states: M3CModel) -> None:
        profile = state_profile(three_states, dipeptide.columns, dipeptide.features)
        beta, alpha, left = range(3)
        regions = profile.residues.xs("ALA 2", level="residue")
        assert regions.idxmax(axis=1).tolist() == ["β", "α", "α_L"]
        assert regions.loc[beta, "β"] > 0.95
        assert regions.loc[alpha, "α"] > 0.9
        mean = profile.angles["mean"]
        assert -130.0 < mean[beta, "phi ALA 2"] < -60.0
        assert 130.0 < mean[beta, "psi ALA 2"] < 170.0
        assert -110.0 < mean[alpha, "phi ALA 2"] < -55.0
        assert -50.0 < mean[alpha, "psi ALA 2"] < 10.0
        assert 45.0 < mean[left, "phi ALA 2"] < 75.0
        best = profile.borders.groupby(["state", "neighbour"]).first()
        assert best["dihedral"].to_dict() == {(0, 1): "psi ALA 2", (0, 2): "phi ALA 2", (1, 2): "phi ALA 2"}
        assert best["share"].min() > 0.7
        words = "\n".join(profile.words())
        assert "torsions: ALA 2 β\n" in words
        assert "torsions: ALA 2 α_L\n" in words
        assert "differs from state 1 by psi ALA 2 (150 ± 24° here" in words

    def test_merged_states_differ_from_the_third_as_their_parts_do(
        self, dipeptide: MolecularData, three_states: M3CModel
    ) -> None:
        """Frames between β and α have no large lead over α_L, and are far from it nevertheless."""
        merged = three_states.merge([[0, 1], 2])
        profile = state_profile(merged, dipeptide.columns, dipeptide.features)
        (best,) = profile.borders.groupby(["state", "neighbour"]).first().itertuples()
        assert best.dihedral == "phi ALA 2"
        parts = state_profile(three_states, dipeptide.columns, dipeptide.features).borders
        of_left = parts[(parts["neighbour"] == 2) & (parts["dihedral"] == "phi ALA 2")]
        assert of_left["share"].min() - 0.01 <= best.share <= of_left["share"].max() + 0.01
        assert best.frames == of_left["frames"].sum()
        np.testing.assert_array_equal(
            profile.populations, np.bincount(np.concatenate(merged.transform(dipeptide.features))) / 200_000
        )

    def test_files_and_trajectories_say_what_arrays_say(self, dipeptide: MolecularData, three_states: M3CModel) -> None:
        import mdtraj as md

        featurizer = DihedralFeaturizer()
        of_files = state_profile(three_states, featurizer, dipeptide.trajectory_files, dipeptide.topology_file)
        loaded = [md.load(str(path), top=dipeptide.topology) for path in dipeptide.trajectory_files]
        in_memory = state_profile(three_states, featurizer, loaded)
        of_arrays = state_profile(three_states, featurizer, dipeptide.features[:2])
        pd.testing.assert_frame_equal(of_files.angles, in_memory.angles)
        # The shipped angles were computed before coordinates were rounded to a thousandth of a nanometre.
        np.testing.assert_allclose(of_files.angles, of_arrays.angles, atol=0.5)
        assert of_files.missing == [
            "secondary structure was left out: DSSP needs 5 residues with backbone atoms N, CA, C and O, and there is 1"
        ]
        assert "arrays have no coordinates" in of_arrays.missing[0]

    def test_names_of_states_are_in_the_words(self, dipeptide: MolecularData, three_states: M3CModel) -> None:
        named = three_states.rename({1: "helical", 2: "left"})
        words = "\n".join(state_profile(named, dipeptide.columns, dipeptide.features[:1]).words())
        assert "\nhelical, " in words
        assert "differs from left by phi ALA 2" in words
        assert "state 0, " in words

    def test_a_state_without_frames_is_told_apart_from_zero(
        self, dipeptide: MolecularData, three_states: M3CModel
    ) -> None:
        frames = dipeptide.features[0]
        frames = frames[three_states.transform(frames) != 2]
        profile = state_profile(three_states, dipeptide.columns, frames)
        assert profile.populations[2] == 0.0
        assert profile.angles.loc[2].isna().all(axis=None)
        assert profile.residues.loc[2].isna().all(axis=None)
        assert "state 2, 0.0% of the frames" in profile.words()


@pytest.fixture(scope="module")
def helix_model() -> M3CModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", M3CWarning)  # other states are as good; not the matter here
        estimator = M3C(3, bandwidth=4.24, starts=("kinetic",), random_state=0)
        model: M3CModel = estimator.fit_fetch(deca_alanine().features)
    return model


class TestDecaAlanine:
    def test_the_helix_is_found_and_told_from_what_is_frayed(self, helix_model: M3CModel) -> None:
        data = deca_alanine()
        profile = state_profile(helix_model, DihedralFeaturizer(), data.trajectory_files, data.topology_file)
        assert profile.missing == []
        helical = profile.residues["helix"].unstack("state").sum()  # residues in a helix, in the mean over frames
        most, least = int(helical.idxmax()), int(helical.idxmin())
        assert helical[most] > 2.0 * helical[least]
        inner = [f"ALA {n}" for n in range(4, 7)]
        assert (profile.residues.loc[most].loc[inner, "helix"] > 0.6).all()
        assert (profile.residues.loc[most].loc[inner, "α"] > 0.9).all()
        for name in inner:  # of an ideal α helix: -57 and -47, of a 3-10 helix: -49 and -26
            assert abs(profile.angles.loc[(most, f"phi {name}"), "mean"] + 65.0) < 15.0
            assert abs(profile.angles.loc[(most, f"psi {name}"), "mean"] + 35.0) < 15.0
        helix = next(line for line in profile.words() if "helix" in line)
        assert "ALA 3 to ALA 6 helix" in helix
        # The turns of the end unwind one after the other, by their ψ.
        leading = profile.borders.groupby(["state", "neighbour"]).first()["dihedral"]
        assert leading.str.startswith("psi ALA").all()

    def test_shares_of_helix_are_those_of_mdtraj(self, helix_model: M3CModel) -> None:
        import mdtraj as md

        data = deca_alanine()
        loaded = md.load(str(data.trajectory_files[0]), top=data.topology)
        profile = state_profile(helix_model, DihedralFeaturizer(), loaded)
        labels = helix_model.transform(DihedralFeaturizer().transform(loaded))
        helix = md.compute_dssp(loaded) == "H"
        for state in range(3):
            np.testing.assert_allclose(profile.residues.loc[state, "helix"], helix[labels == state].mean(axis=0))


@pytest.fixture(scope="module")
def two_states() -> M3CModel:
    model: M3CModel = quick(2).fit_fetch(columns_of(planted(0, (0.0, 150.0, 0.0), 2000)[0]))
    return model


class TestRefusals:
    def test_a_rule_without_gradient_has_no_borders_and_says_so(self) -> None:
        x = columns_of(planted(0, (0.0, 150.0, 0.0), 2000)[0])
        profile = state_profile(KMedoids(2, random_state=0).fit_fetch(x), COLUMNS, x)
        assert profile.borders.empty
        assert "has no gradient" in profile.missing[-1]
        assert "differs from" not in repr(profile)

    @pytest.mark.parametrize(
        ("featurizer", "message"),
        [
            (COLUMNS[:4], r"4 columns .* fitted to 6"),
            (COLUMNS[::-1], "are not those of a DihedralFeaturizer in their order"),
            ([f"column {i}" for i in range(6)], "are not those of a DihedralFeaturizer in their order"),
            (3, "featurizer=3 must be the DihedralFeaturizer of the fit"),
            (DihedralFeaturizer(), "knows no molecule yet"),
        ],
    )
    def test_columns_that_are_not_those_of_the_fit(self, two_states: M3CModel, featurizer: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            state_profile(two_states, featurizer, np.zeros((5, 6)))

    def test_no_model(self) -> None:
        with pytest.raises(InputError, match=r"model=3 must be a fitted model"):
            state_profile(3, COLUMNS, np.zeros((5, 6)))  # type: ignore[arg-type]

    def test_molecules_need_a_featurizer(self, two_states: M3CModel) -> None:
        with pytest.raises(InputError, match="need the DihedralFeaturizer of the fit"):
            state_profile(two_states, COLUMNS, "run.xtc")
