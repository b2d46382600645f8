"""Pictures: what is on the axes, not its pixels."""

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from leadline import plots, prediction_plots
from leadline.metrics import chance_band


@pytest.fixture
def axes():
    """Two axes; at the end they are drawn, which would stumble over a name taken for a formula."""
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    yield left, right
    figure.draw_without_rendering()


def history(n=50, runs=3, *, nll=100.0, depth_kl=1.0):
    fall = np.linspace(3, 1, n)[:, None] * np.linspace(0.9, 1.1, runs)
    terms = {"expected_nll": nll * fall, "depth_kl": depth_kl * fall, "weight_kl": 300 * fall}
    mean = 3 - fall
    return {
        "free_energy": sum(terms.values()),
        **terms,
        "depth_mean": mean,
        "depth_std": 0.2 * fall,
        "depth_support": np.stack([np.floor(mean), np.ceil(mean)], axis=-1),
    }


def band_at(ax, x, index=0):
    """Lower and upper edge of a filled band."""
    vertices = ax.collections[index].get_paths()[0].vertices
    heights = vertices[np.isclose(vertices[:, 0], x), 1]
    return heights.min(), heights.max()


def by_colour(ax):
    return {to_hex(line.get_color()): line for line in ax.lines}


def words(texts):
    return [text.get_text() for text in texts]


def test_the_history_has_a_line_for_every_part_with_its_name_and_last_value(axes):
    given = history()
    left, _ = plots.plot_history(axes, given)
    lines = by_colour(left)
    assert len(left.lines) == 4
    for name, (_, colour) in plots.TERMS.items():
        np.testing.assert_allclose(lines[colour].get_ydata(), given[name].mean(axis=1))
        np.testing.assert_array_equal(lines[colour].get_xdata(), np.arange(1, 51))
    assert sorted(words(left.texts)) == ["depth KL 1", "expected NLL 100", "free energy 401", "weight KL 300"]
    assert left.get_yscale() == "log"
    assert left.lines[-1] is lines[plots.INK]  # on top


@pytest.mark.parametrize("rising", [False, True])
def test_the_names_of_the_lines_keep_apart_in_the_order_of_the_lines(axes, rising):
    """The free energy and the weight KL end on nearly the same height here, at the very top if they rise."""
    given = {name: column[::-1] if rising else column for name, column in history(nll=0.5, depth_kl=0.4).items()}
    left, _ = plots.plot_history(axes, given)
    texts = sorted(left.texts, key=lambda text: text.get_position()[1])
    assert [text.rsplit(" ", 1)[0] for text in words(texts)] == ["depth KL", "expected NLL", "weight KL", "free energy"]
    heights = [text.get_position()[1] for text in texts]
    assert np.diff(heights).min() >= 0.08 - 1e-9
    assert 0 <= heights[0] < heights[-1] <= 1


def test_a_negative_likelihood_turns_off_the_logarithm_and_cuts_off_the_first_fall(axes):
    given = history(nll=-500)
    for name in ("weight_kl", "free_energy"):
        given[name][:3] += 1e6
    left, _ = plots.plot_history(axes, given)
    assert left.get_yscale() == "linear"
    assert "expected NLL −500" in words(left.texts)
    low, high = left.get_ylim()
    assert low < given["expected_nll"].mean(axis=1).min()
    assert given["weight_kl"].mean(axis=1)[5:].max() < high < 2000


def test_a_fixed_depth_has_no_depth_kl(axes):
    left, _ = plots.plot_history(axes, history(depth_kl=0.0))
    assert len(left.lines) == 3
    assert plots.POSTERIOR_COLOUR not in by_colour(left)


@pytest.mark.parametrize("depth_kl", [1e-9, -1e-9])
def test_a_negligible_depth_kl_does_not_stretch_the_axis(axes, depth_kl):
    left, _ = plots.plot_history(axes, history(depth_kl=depth_kl))
    assert left.get_yscale() == "log"
    assert left.get_ylim()[0] > 0.01
    assert len(left.texts) == 4


def test_the_depth_has_a_line_for_every_run_and_the_band_of_their_mixture(axes):
    given = history(runs=2)
    given["depth_mean"] = np.tile([1.0, 3.0], (50, 1))
    given["depth_std"] = np.full((50, 2), np.sqrt(3.0))
    _, right = plots.plot_history(axes, given)
    *thin, bold = right.lines
    assert [line.get_ydata()[0] for line in thin] == [1, 3]
    assert bold.get_linewidth() > 2 * thin[0].get_linewidth()
    np.testing.assert_allclose(bold.get_ydata(), 2)
    assert band_at(right, 1) == pytest.approx((0, 4))  # within and between the runs: 3 + 1 = 2²
    assert right.get_ylim()[0] == 0


def test_one_run_is_one_line(axes):
    _, right = plots.plot_history(axes, history(runs=1))
    assert len(right.lines) == 1


def test_the_history_may_come_from_a_file_and_be_thinned(axes):
    given = history()
    lists = {name: column.tolist() for name, column in given.items()}
    left, right = plots.plot_history(axes, lists, 5000)
    line = by_colour(left)[plots.INK]
    np.testing.assert_allclose(line.get_ydata(), given["free_energy"].mean(axis=1))
    assert line.get_xdata()[[0, -1]].tolist() == [1, 5000]
    assert right.get_xlim() == (0, 5000)


def test_no_network_lies_outside_the_picture_of_the_depth(axes):
    """Ten at depth 0 and one at depth 5: the mean and its band end far below it."""
    given = history()
    deep = np.zeros((50, 11))
    deep[:, -1] = 5.0
    given |= {"depth_mean": deep, "depth_std": np.zeros((50, 11))}
    _, right = plots.plot_history(axes, given)
    assert right.get_ylim()[1] > 5.0


@pytest.fixture
def plane():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 2)), np.arange(60) % 3
    grid, extent = plots.decision_grid(x, 20)
    return grid, extent, x, y


def test_two_classes_are_the_probability_of_the_second(axes, plane):
    grid, extent, x, y = plane
    p = 1 / (1 + np.exp(-grid[:, 0]))
    ax = plots.plot_decision(axes[0], np.stack([1 - p, p], axis=1), extent, x, np.minimum(y, 1), ("no", r"y$\q$s"))
    image = ax.images[0]
    np.testing.assert_allclose(image.get_array(), p.reshape(20, 20))
    assert image.get_clim() == (0, 1)
    assert image.get_extent() == list(extent)
    assert [len(dots.get_offsets()) for dots in ax.collections] == [20, 40]
    bar = ax.figure.axes[-1]
    assert bar.get_ylabel() == r"P(y$\q$s)"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x1", "x2")


def test_more_classes_have_the_colour_of_the_most_probable_paler_the_less_sure(axes, plane):
    grid, extent, x, y = plane
    p = np.tile([1 / 3, 1 / 3, 1 / 3], (len(grid), 1))
    p[0], p[1] = (0, 1, 0), (0.2, 0.6, 0.2)
    ax = plots.plot_decision(axes[0], p, extent, x, y, ("_a", r"b $\q$", "c"), (r"price $\q$", r"age $\q$"))
    sure, less, *undecided = np.asarray(ax.images[0].get_array()).reshape(-1, 3)
    np.testing.assert_allclose(undecided, 1)
    colour = np.array(to_rgb(plots.MORE_CLASS_COLOURS[1]))
    np.testing.assert_allclose(sure, 1 - 0.6 * (1 - colour))
    np.testing.assert_allclose(less, 1 - 0.6 * 0.4 * (1 - colour))
    for label, dots in enumerate(ax.collections):
        np.testing.assert_array_equal(dots.get_offsets(), x[y == label])
    assert words(ax.get_legend().get_texts()) == ["_a", r"b $\q$", "c"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == (r"price $\q$", r"age $\q$")


def test_any_number_of_classes_has_colours_of_its_own():
    for n in (2, 3, 10, 26):
        assert len({to_hex(colour) for colour in plots._class_colours(n)}) == n


def test_the_bands_of_a_fit_are_two_deviations_and_nested(axes):
    grid = np.linspace(0, 1, 11)
    noise, weights, depth = (np.full(11, v) for v in (0.5, 0.3, 0.2))
    x, y = np.array([0.2, 0.6]), np.array([1.0, -1.0])
    ax = plots.plot_fit(axes[0], grid, grid, noise, weights, depth, x, y, r"dose $\q$", r"response $\q$")
    for index, variance in enumerate([1.0, 0.5, 0.2]):
        reach = 2 * np.sqrt(variance)
        assert band_at(ax, 0.5, index) == pytest.approx((0.5 - reach, 0.5 + reach))
    labels = ["depth + weights + noise", "depth + weights", "depth", "mean", "data"]
    assert words(ax.get_legend().get_texts()) == labels
    assert ax.get_legend().get_title().get_text() == "bands: ± 2 standard deviations"
    np.testing.assert_allclose(ax.lines[0].get_ydata(), grid)
    np.testing.assert_allclose(ax.collections[3].get_offsets(), np.stack([x, y], axis=1))
    assert (ax.get_xlabel(), ax.get_ylabel()) == (r"dose $\q$", r"response $\q$")


def test_the_band_of_the_coverage_is_two_binomial_errors(axes):
    level = np.array([0.1, 0.5, 0.9])
    ax = plots.plot_coverage(axes[0], level, level**2, 100)
    assert band_at(ax, 0.5) == pytest.approx((0.4, 0.6))
    assert band_at(ax, 0.9) == pytest.approx((0.84, 0.96))
    diagonal, curve = ax.lines
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    np.testing.assert_allclose(curve.get_xydata(), np.stack([level, level**2], axis=1))
    assert words(ax.texts) == ["too cautious", "too sure"]


def test_candidates_stand_from_the_top_with_their_errors(axes):
    ax, with_aim = axes
    plots.plot_compared(ax, ["ours", "a $b", "c"], [3.0, 1.0, 2.0], [0.5, 0.1, 0.0], "NLL")
    plots.plot_compared(with_aim, ["ours", "a"], [92.0, 80.0], [1.0, 2.0], "inside", aim=90.0)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["ours", "a $b", "c"]
    assert list(ax.get_yticks()) == [2, 1, 0]
    [line] = [line for line in ax.lines if len(set(line.get_xdata())) == 1 and line.get_color() == plots.GUIDE_COLOUR]
    assert line.get_xdata()[0] == 3.0
    found = {tuple(point) for bars in ax.containers for point in bars.lines[0].get_xydata().tolist()}
    assert found == {(3.0, 2), (1.0, 1), (2.0, 0)}
    first = ax.containers[0].lines[2][0].get_segments()[0]
    np.testing.assert_allclose(first, [[2.5, 2], [3.5, 2]])
    assert 90.0 in [line.get_xdata()[0] for line in with_aim.lines]


def test_the_depth_stands_beside_its_prior_where_there_is_one(axes):
    pmf, prior = np.array([0.05, 0.9, 0.05]), np.array([0.5, 0.3, 0.1, 0.1])
    both, alone = plots.plot_depth(axes[0], pmf, prior), plots.plot_depth(axes[1], pmf)
    heights = [[bar.get_height() for bar in bars] for bars in both.containers]
    np.testing.assert_allclose(heights, [prior, [*pmf, 0]])
    assert words(both.get_legend().get_texts()) == ["prior p(L)", "posterior q(L)"]
    assert words(both.texts) == ["0.05", "0.90", "0.05"]
    assert len(alone.containers) == 1
    assert words(alone.get_legend().get_texts()) == ["posterior q(L)"]


def test_many_depths_leave_room_between_the_ticks(axes):
    ax = plots.plot_depth(axes[0], np.full(40, 1 / 40))
    assert len(ax.containers[0]) == 40
    assert len(ax.get_xticks()) <= 12
    assert len(ax.texts) == 0


def test_a_bin_without_rows_is_not_drawn(axes):
    rows, confidence, right = np.array([0, 30, 10]), np.array([np.nan, 0.6, 0.9]), np.array([np.nan, 0.5, 1.0])
    ax = plots.plot_reliability(axes[0], rows, confidence, right)
    chance, lines, dots = ax.collections
    low, high = chance_band(rows[1:], confidence[1:])
    ends = [segment[:, 1].tolist() for segment in chance.get_segments()]
    np.testing.assert_allclose(ends, np.stack([low, high], axis=1))
    np.testing.assert_allclose(dots.get_offsets(), [[0.6, 0.5], [0.9, 1.0]])
    assert len(lines.get_segments()) == 2
    assert dots.get_sizes()[0] > dots.get_sizes()[1]


def test_shares_are_written_in_percent(axes):
    level = np.array([0.1, 0.5, 0.9])
    ax = plots.plot_coverage(axes[0], level, level, 100)
    ax.figure.draw_without_rendering()
    assert "100 %" in words(ax.get_yticklabels())


def test_the_largest_twenty_importances_are_bars_with_their_errors(axes):
    rise = np.arange(30) / 30
    ax = prediction_plots.plot_importance(axes[0], [f"$c_{i}" for i in range(30)], rise, rise / 10)
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(rise[:9:-1])
    assert words(ax.get_yticklabels())[:2] == ["$c_29", "$c_28"]
    ends = [segment[:, 0] for segment in ax.collections[0].get_segments()]
    np.testing.assert_allclose(ends[0], [0.9 * 29 / 30, 1.1 * 29 / 30])


def test_a_dependence_has_a_band_of_two_deviations_that_stays_a_probability(axes):
    mean, deviation = np.array([[0.1], [0.5], [0.9]]), np.array([[0.1], [0.1], [0.01]])
    given = {"outputs": ["a"], "some": [0]}
    ax = prediction_plots.plot_dependence(axes[0], "x", [1.0, 2.0, 4.0], mean, deviation, **given)
    assert band_at(ax, 2.0) == pytest.approx((0.3, 0.7))
    assert band_at(ax, 1.0) == pytest.approx((0, 0.3))
    ax = prediction_plots.plot_dependence(axes[1], "x", ["$u", "_v", "w"], mean, deviation, **given, in_order=False)
    np.testing.assert_allclose(ax.collections[0].get_segments()[1][:, 1], [0.3, 0.7])
    assert words(ax.get_xticklabels()) == ["$u", "_v", "w"]


def test_of_many_classes_those_that_move_most_are_drawn():
    one, other = np.zeros((3, 6)), np.zeros((3, 6))
    one[0, 4], other[1, 1], one[2, 0], other[0, 5], one[0, 3] = 0.9, 0.8, 0.7, 0.6, 0.1
    assert prediction_plots.moving([one, other]) == [0, 1, 4, 5]
    assert prediction_plots.moving([np.zeros((3, 2))]) == [1]
    assert prediction_plots.moving([np.zeros((3, 1))]) == [0]


def test_the_validation_part_is_drawn_network_by_network_with_the_ends(axes):
    nll = np.linspace(3, 1, 40)[:, None] + np.array([0.0, 0.5, 0.5, 0.6, 9.0])
    ends = {"training rows": 0.4, "test rows": 0.8}
    ax = prediction_plots.plot_learning(axes[0], {"validation_nll": nll.tolist()}, 400, ends)
    *single, middle, training, test = ax.lines
    assert len(single) == 5
    np.testing.assert_allclose(middle.get_ydata(), nll[:, 1])
    assert (training.get_ydata()[0], test.get_ydata()[0]) == (0.4, 0.8)
    low, high = ax.get_ylim()
    assert low < 0.4
    assert nll[2, 1] < high < 9
    assert ax.get_ylabel() == "NLL, nats per row"


def test_the_parts_of_the_uncertainty_add_up_row_by_row(axes):
    noise, weights, depth = np.array([0.3, 0.1]), np.array([0.2, 0.0]), np.array([0.1, 0.05])
    ax = prediction_plots.plot_uncertainty(axes[0], noise, weights, depth, "nats")
    assert [area.get_label() for area in ax.collections] == ["depth", "weights", "noise"]
    assert band_at(ax, 75, 2) == pytest.approx((0.3, 0.6))
    assert band_at(ax, 25, 2) == pytest.approx((0.05, 0.15))


def test_a_roc_curve_goes_from_none_to_all(axes):
    p = np.array([0.9, 0.6, 0.4, 0.1])
    ax = prediction_plots.plot_roc(axes[0], np.stack([1 - p, p], axis=1), np.array([1, 0, 1, 0]), ["_no", "$yes"])
    _, curve = ax.lines
    np.testing.assert_allclose(curve.get_xydata(), [[0, 0], [0, 50], [50, 50], [50, 100], [100, 100]])
    assert words(ax.get_legend().get_texts()) == ["$yes: 0.750"]


@pytest.mark.parametrize(("n", "rows"), [(2, 60), (5, 12_345), (17, 30), (20, 400)])
def test_a_confusion_matrix_can_be_read(n, rows):
    """Its numbers keep to their cells, and its letters are as large as they may be."""
    figure = Figure(figsize=(3 + 0.2 * n, 2.6 + 0.2 * n), layout="constrained")
    ax = prediction_plots.plot_confusion(figure.subplots(), np.full((n, n), rows), [f"class {i}" for i in range(n)])
    figure.draw_without_rendering()
    cell = ax.get_window_extent().width / n
    widths = [text.get_window_extent().width for text in ax.texts]
    assert max(widths) < cell
    assert all(text.get_fontsize() == 10 or width > 0.6 * cell for text, width in zip(ax.texts, widths, strict=True))
    assert all(label.get_fontsize() >= 8 for label in (*ax.get_xticklabels(), *ax.get_yticklabels()))


def test_long_names_that_end_otherwise_are_told_apart(axes):
    columns = [f"temperature of the sensor number {i}" for i in range(3)] + ["short", "with\na line", "x" * 1_000_000]
    prediction_plots.plot_importance(axes[0], columns, np.arange(6.0), np.ones(6))
    labels = {label.get_text() for label in axes[0].get_yticklabels()}
    assert len(labels) == 6
    assert {"short", "with\\na line"} <= labels
    assert max(map(len, labels)) <= prediction_plots.LONGEST
