"""Metrics in a search: which compete, what is learned from candidates, and who is taught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from m3c_md.exceptions import SolverError
from m3c_md.frames.windows import windows_of_trajectories
from m3c_md.matching import agreement
from m3c_md.optimize.metric import Metric, lagged_moments, root_mean_square_distance, typical_values
from m3c_md.search import learning
from m3c_md.search.bandwidth_choice import PLAINER_SCORE, plainest_first
from m3c_md.search.candidates import Search
from m3c_md.search.learning import continued_in, fresh_starts, taught, with_learned
from m3c_md.search.local_search import SearchSettings
from m3c_md.search.metrics import (
    NOISY_COLUMNS,
    POOLED,
    learned_metric,
    pooled_metric,
    with_competing_metrics,
    with_new_metric,
    without_noise,
)
from m3c_md.search.problem import (
    FEW_COLUMNS,
    LATE,
    STANDARD,
    Kernel,
    SearchProblem,
    _late_moments,
    default_bandwidths,
    prepare_problem,
)
from m3c_md.search.steps import SearchOptions, least_squares_of_kernel
from m3c_md.search.trials import Trial, worth_teaching
from tests.search._data import candidate, labels_of, problem_of, switching


def noisy_wells(n_noise, n_frames=1200, seed=0):
    """Three wells in two columns, and columns of noise after them; the wells."""
    rng = np.random.default_rng(seed)
    (frames,), (wells,) = switching([n_frames], rng)
    return np.hstack([frames, 2.0 * rng.normal(size=(n_frames, n_noise))]), wells


def prepared(frames, kind="orthogonal", *, kinetic=True, n_slices=2, scale="standard", given=None):
    return prepare_problem(
        windows_of_trajectories([frames], 1, n_slices),
        SearchSettings(3, 3e-3, (0.01, 0.99)),
        np.random.default_rng(0),
        starts=("kmeans",),
        n_features=60,
        feature_kind=kind,
        scale=scale,
        reweight=False,
        n_coarse=10,
        kinetic=kinetic,
        given=given,
    )


def judged_wells(problem: SearchProblem, wells, metric=STANDARD):
    """The wells as a start, as least squares judges them, on all windows."""
    trial = Trial("wells", labels=wells[problem.data.windows[0]])
    bandwidth = float(default_bandwidths(problem.typical.spread, problem.scale)[4])
    chosen, kernel = np.arange(problem.data.n_windows), Kernel(bandwidth, metric)
    return least_squares_of_kernel(problem, kernel, [trial], chosen, "class-averaged", [])


class TestCompeting:
    def test_few_columns_have_one_rival_of_the_standard_many_have_five(self):
        for n_noise, expected in ((FEW_COLUMNS - 2, 2), (FEW_COLUMNS - 1, 6)):
            problem = with_competing_metrics(prepared(noisy_wells(n_noise, 300)[0]), "auto", "orthogonal", 0)
            assert len(problem.metrics) == expected
            assert STANDARD in problem.metrics

    def test_trajectories_too_short_for_a_longer_lag_time_have_no_late_metric(self):
        frames, _ = noisy_wells(FEW_COLUMNS, 400)
        for n_parts, there in ((4, True), (20, False)):
            problem = prepare_problem(
                windows_of_trajectories(np.split(frames, n_parts), 1, 2),
                SearchSettings(3, 3e-3, (0.01, 0.99)),
                np.random.default_rng(0),
                **{"starts": ("kmeans",), "n_features": 20, "feature_kind": "orthogonal", "scale": "standard"},
                **{"reweight": False, "n_coarse": 10, "kinetic": True},
            )
            assert (problem.late_moments is not None) == there
            assert ("late" in with_competing_metrics(problem, "auto", "orthogonal", 0).metrics) == there
            assert ("late" in [space.name for space in problem.spaces]) == there, "frames are partitioned there, too"

    def test_late_moments_do_not_cross_from_one_trajectory_to_the_next(self):
        """One trajectory is far above the other: pairs across would say that the columns fluctuate together."""
        rng = np.random.default_rng(0)
        low, high = rng.normal(size=(100, 9)), 1e3 + rng.normal(size=(100, 9))
        both = np.concatenate([low, high])
        found = _late_moments(windows_of_trajectories([low, high], 1, 2), np.ones(9), typical_values(both))
        times = np.concatenate([np.arange(100 - LATE), 100 + np.arange(100 - LATE)])
        expected = lagged_moments(both, times, times + LATE, np.ones(9))
        assert_allclose(found.lagged, expected.lagged)

    def test_kinetic_alone_leaves_the_standard_out(self):
        problem = with_competing_metrics(prepared(noisy_wells(2, 300)[0]), "kinetic", "orthogonal", 0)
        assert STANDARD not in problem.metrics
        assert list(problem.metrics) == ["kinetic"]

    @pytest.mark.parametrize("n_columns", [2, 12])
    @pytest.mark.parametrize("choice", ["auto", "kinetic"])
    def test_where_nothing_is_slow_there_is_no_kinetic_metric(self, choice, n_columns):
        """Columns that alternate have negative autocorrelations, and directions without memory have no weight."""
        frames = np.repeat((-1.0) ** np.arange(40)[:, None], n_columns, axis=1)
        problem = with_competing_metrics(prepared(frames), choice, "orthogonal", 0)
        assert set(problem.metrics) <= {STANDARD, "late"}
        assert all(metric.matrix.any() for metric in (*problem.metrics.values(), *problem.spaces))

    def test_without_moments_there_is_nothing_to_compete(self):
        problem = prepared(noisy_wells(2, 300)[0], kinetic=False)
        assert with_competing_metrics(problem, "auto", "orthogonal", 0) is problem

    def test_in_all_of_them_frames_are_equally_far_apart(self):
        frames = noisy_wells(10, 400)[0] * np.geomspace(1e-3, 1e3, 12)
        problem = with_competing_metrics(prepared(frames), "auto", "orthogonal", 0)
        for metric in problem.metrics.values():
            # Windows hold the first and the last frame once, all others twice.
            assert root_mean_square_distance(metric(frames)) == pytest.approx(np.sqrt(2.0 * 12), rel=0.01)

    @pytest.mark.parametrize("kind", ["orthogonal", "fourier"])
    def test_all_maps_have_the_phases_that_a_model_file_holds_once(self, kind):
        problem = with_competing_metrics(prepared(noisy_wells(2, 300)[0], kind), "auto", kind, 0)
        first, *others = problem.maps.values()
        assert others
        for one in others:
            assert_array_equal(one.phases, first.phases)
            assert_array_equal(one.center, first.center)
            assert one.frequencies.shape == first.frequencies.shape
            assert not np.allclose(one.frequencies, first.frequencies)

    def test_features_depend_on_the_name_and_the_seed_alone(self):
        problem = prepared(noisy_wells(2, 300)[0])
        metric = Metric("mine", np.eye(4)[:, :2])
        one, same, other = (with_new_metric(problem, metric, "orthogonal", seed) for seed in (0, 0, 1))
        assert_array_equal(one.maps["mine"].frequencies, same.maps["mine"].frequencies)
        assert not np.allclose(one.maps["mine"].frequencies, other.maps["mine"].frequencies)


class TestGiven:
    def test_it_takes_the_place_of_all_others_in_their_unit(self):
        frames, _ = noisy_wells(3, 300)
        problem = prepared(frames, kinetic=False, given=Metric("given", 1e5 * np.eye(5)[:, :2]))
        assert list(problem.metrics) == list(problem.maps) == ["given"]
        assert problem.spaces == [problem.metrics["given"]]
        assert root_mean_square_distance(problem.metrics["given"](frames)) == pytest.approx(np.sqrt(10.0))
        assert not problem.maps["given"].frequencies[2:].any()


class TestLearned:
    def test_columns_of_noise_have_little_weight_in_what_right_labels_teach(self):
        frames, wells = noisy_wells(20)
        problem = prepared(frames)
        ((_, judged),) = judged_wells(problem, wells)
        scaled = learned_metric(problem, judged, "learned 1").matrix * problem.scale[:, None]
        weights = (scaled**2).sum(axis=1)
        assert weights[:2].min() > 5.0 * weights[2:].max()

    @pytest.mark.parametrize(("n_noise", "leaves"), [(NOISY_COLUMNS - 3, False), (NOISY_COLUMNS, True)])
    def test_columns_of_noise_leave_it_where_they_are_many(self, n_noise, leaves):
        frames, wells = noisy_wells(n_noise)
        problem = with_competing_metrics(prepared(frames), "auto", "orthogonal", 0)
        ((_, judged),) = judged_wells(problem, wells, "kinetic 2")
        matrix = learned_metric(problem, judged, "learned 1").matrix
        assert matrix[:2].any(axis=1).all()
        assert (np.count_nonzero(matrix[2:].any(axis=1)) < 0.25 * n_noise) == leaves

    def test_many_columns_that_say_a_little_each_stay(self):
        directions = np.random.default_rng(0).normal(size=(500, 2))
        metric, scale = Metric("learned", directions), np.ones(500)
        assert without_noise(metric, scale) is metric
        few = Metric("learned", np.where(np.arange(500)[:, None] < 4, 40.0, 1.0) * directions)
        left = without_noise(few, scale).matrix
        assert_allclose(left[:4], few.matrix[:4], rtol=0.05)
        assert np.count_nonzero(left[4:].any(axis=1)) < 0.15 * 496

    def test_lessons_make_it_clearer(self):
        frames, wells = noisy_wells(20)
        problem = prepared(frames)
        options = SearchOptions("class-averaged", 0)
        shares = []
        metric, names = STANDARD, []
        for _ in range(2):
            ((_, judged),) = judged_wells(problem, wells, metric)
            problem, metric = with_learned(problem, judged, options)
            names.append(metric)
            square = np.diag(problem.metrics[metric].full_matrix()) * problem.scale**2
            shares.append(square[:2].sum() / square.sum())
        assert names == ["learned 1", "learned 2"]
        assert shares[1] > shares[0] > 2 / 22
        assert shares[1] > 0.8

    def test_each_state_teaches_as_much_however_rare_it_is(self):
        frames, wells = noisy_wells(3, 600)
        problem = prepared(frames)
        ((_, judged),) = judged_wells(problem, wells)
        scores = judged.optimum.rule.scores(problem.feature_map(*judged.kernel)(frames[problem.data.windows[0]]))
        heavier = problem.weights * np.array([1.0, 0.01, 9.0])[scores.argmax(axis=0)]
        one, other = (
            learned_metric(replace(problem, weights=weights / weights.sum()), judged, "learned 1").full_matrix()
            for weights in (problem.weights, heavier)
        )
        assert_allclose(other, one, rtol=1e-3, atol=1e-4 * np.trace(one))

    def test_pooled_directions_are_those_of_all_each_counted_alike(self):
        frames, _ = noisy_wells(2, 300)
        problem = prepared(frames)
        for name, column, size in (("learned 1", 0, 1.0), ("learned 2", 1, 1.0)):
            metric = Metric(name, size * np.eye(4)[:, [column]] / problem.scale[column])
            problem = with_new_metric(problem, metric, "orthogonal", 0)
        pooled = pooled_metric(problem, ["learned 1", "learned 2"])
        scaled = pooled.full_matrix() * np.outer(problem.scale, problem.scale)
        assert pooled.name == POOLED
        # The unit is that of the windows' frames, which are all but the first and last ones twice.
        assert_allclose(scaled, np.diag([1.0, 1.0, 0.0, 0.0]), rtol=0.01, atol=1e-8)


class TestTeaching:
    def judge(self, selection="class-averaged"):
        def by_least_squares(problem, trials):
            chosen = np.arange(problem.data.n_windows)
            return [
                one
                for kernel, some in trials.items()
                for one in least_squares_of_kernel(problem, kernel, some, chosen, selection, [])
            ]

        return by_least_squares

    def test_starts_learn_and_new_starts_are_made_in_what_they_learned(self):
        """Geometry sees nothing of the wells among twenty columns of noise, until it looks where labels change."""
        frames, wells = noisy_wells(20)
        problem = prepared(frames)
        truth = wells[problem.data.windows[0]]
        options, widths = (
            SearchOptions("class-averaged", 0),
            default_bandwidths(problem.typical.spread, problem.scale).tolist(),
        )
        rough = np.where(np.random.default_rng(1).random(len(truth)) < 0.25, (truth + 1) % 3, truth)
        kernel = Kernel(widths[3])
        judged = self.judge()(problem, {kernel: [Trial("rough", labels=rough)]})
        problem, pupils = taught(problem, judged, 1, widths, options, self.judge())
        assert len(pupils) == 1
        assert pupils[0][1].score < judged[0][1].score
        assert pupils[0][0].labels is rough
        n_windows = problem.data.n_windows
        before = problem
        problem, trials = fresh_starts(problem, judged + pupils, ("kmeans", rough), widths, n_windows, options, None)
        assert set(problem.metrics) - set(before.metrics) == {POOLED}
        (trial,) = (one for group in trials.values() for one in group)
        assert trial.start == "kmeans (learned)"
        assert {kernel.metric for kernel in trials} == {POOLED}
        assert agreement(trial.labels, truth) > 0.95

    def test_who_cannot_learn_stays_as_it_was(self, monkeypatch):
        frames, wells = noisy_wells(2, 300)
        problem = prepared(frames)

        def failing(*_):
            raise SolverError("no directions")

        monkeypatch.setattr(learning, "with_learned", failing)
        judged = judged_wells(problem, wells)
        after, pupils = taught(problem, judged, 3, [1.0, 2.0], SearchOptions("class-averaged", 0), self.judge())
        assert after is problem
        assert pupils == []

    def test_nothing_learned_no_new_starts(self):
        frames, wells = noisy_wells(2, 300)
        problem = prepared(frames)
        judged = judged_wells(problem, wells)
        after, trials = fresh_starts(problem, judged, ("kmeans",), [1.0], 299, SearchOptions("objective", 0), None)
        assert after is problem
        assert trials == {}

    def test_the_best_by_score_and_the_most_metastable_learn_each_start_once(self):
        given = [
            candidate("score", 1.0, 0.1, quality=2.0),
            candidate("score", 2.0, 0.2, quality=2.0),
            candidate("memory", 1.0, 0.9, quality=2.9),
            candidate("neither", 1.0, 0.5, quality=2.2),
            candidate("lucky", 1.0, 0.01, quality=3.0, error=9.0),
        ]
        labels = {"score": 0, "memory": 1, "neither": 2, "lucky": 3}
        judged = [(Trial(one.start, labels_of(labels[one.start])), one) for one in given]
        chosen = worth_teaching(judged, 1)
        assert [(one.start, c.bandwidth) for one, c in chosen] == [("score", 1.0), ("memory", 1.0)]

    def test_a_candidate_goes_on_in_another_metric_from_its_labels(self):
        one = candidate("a", 1.0, 0.1)
        trials = continued_in(one, "learned 7", (0.5, 1.0))
        assert list(trials) == [Kernel(0.5, "learned 7"), Kernel(1.0, "learned 7")]
        for (trial,) in trials.values():
            assert trial.labels is one.optimum.labels
            assert trial.rule is None


class TestPlainerMetric:
    """Of one decomposition, the metric of scaled columns is taken unless another one is clearly better."""

    @pytest.fixture(scope="class")
    @staticmethod
    def case():
        trajectories, wells = switching([400, 400], np.random.default_rng(0), spread=1.0)
        problem = with_new_metric(problem_of(trajectories, 3), Metric("other", np.eye(2)), "orthogonal", 0)
        trial = Trial("wells", labels=np.concatenate(wells)[problem.data.windows[0]])
        chosen = np.arange(problem.data.n_windows)
        found = {
            name: least_squares_of_kernel(problem, Kernel(2.5, name), [trial], chosen, "class-averaged", [])[0][1]
            for name in (STANDARD, "other")
        }
        return problem, found

    def test_the_standard_comes_first_where_it_is_nearly_as_good(self, case):
        problem, found = case
        best = replace(found["other"], score=0.9 * found[STANDARD].score)
        order = plainest_first(problem, [best, found[STANDARD]])
        assert [c.metric for c in order] == [STANDARD, "other"]

    def test_but_not_where_its_score_is_much_worse(self, case):
        problem, found = case
        best = replace(found["other"], score=0.99 * found[STANDARD].score / PLAINER_SCORE)
        assert plainest_first(problem, [best, found[STANDARD]])[0].metric == "other"

    def test_nor_the_other_way_round(self, case):
        problem, found = case
        wider = replace(found["other"], score=1.01 * found[STANDARD].score)
        assert plainest_first(problem, [found[STANDARD], wider])[0].metric == STANDARD

    def test_nor_where_it_is_another_decomposition(self, case):
        problem, found = case
        labels = (np.arange(problem.data.n_windows) // 5) % 3
        other = replace(found[STANDARD], optimum=replace(found[STANDARD].optimum, labels=labels))
        best = replace(found["other"], score=0.9 * other.score)
        assert plainest_first(problem, [best, other])[0].metric == "other"


def test_two_candidates_of_one_name_are_two_steps_in_the_journal():
    """A start may meet one kernel twice, the second time with labels that another metric has changed."""
    trajectories, _ = switching([200, 200, 200], np.random.default_rng(0))
    problem = problem_of(trajectories, 3, n_features=10)
    kept = {}

    class Memory:
        def found(self, step):
            return kept.get(step)

        def keep(self, step, candidates):
            kept[step] = candidates

    search = Search(problem, (1.0,), ("kinetic",), SearchOptions("objective", 0), journal=Memory())
    rule = replace(candidate("a", 1.0, 0.1).optimum.rule, weights=np.random.default_rng(0).normal(size=(3, 10)))
    one, other = (candidate("a", 1.0, 0.1, shift) for shift in (0, 1))
    one, other = (replace(c, optimum=replace(c.optimum, rule=rule)) for c in (one, other))
    search._polished(one)
    search._polished(other)
    assert len(kept) == 2
