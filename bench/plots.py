"""Draw the results of the benchmarks as SVG: python bench/plots.py RESULTS OUT.

RESULTS is the folder that `make bench` fills, OUT gets a file for each of these that is there:

    allocation.json  allocation.svg: how much of all cards is allocated, against the load that has arrived, by policy
    filter.json      latency.svg: filter and prioritize together, against the number of nodes, by policy
    scheduler.json   pods-per-second.svg: each round of each way, with their medians

Of allocation.json, {"policies": {NAME: [[arrived, allocated], ...]}} is drawn, both as fractions of all cards.

matplotlib draws. It is among the tools of this checkout (`make .venv/dev`), and no dependency of accelkit:
`pip install matplotlib` anywhere else.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Results by the names of their keys.
Results = dict[str, Any]


def draw_allocation(axes: Axes, results: Results) -> None:
    """A line for each policy; the dashed one is what would be if everything that arrives found a place."""
    curves = results["policies"]
    most = max((point[0] for points in curves.values() for point in points), default=1.0)
    axes.plot([0, 1, max(1.0, most)], [0, 1, 1], color="grey", linestyle="--", linewidth=0.8, label="all that fits")
    for name, points in curves.items():
        axes.plot([each[0] for each in points], [each[1] for each in points], label=name)
    # Before the first refusals all policies are one line.
    axes.set(xlabel="load that has arrived, of all cards", ylabel="allocated, of all cards", xlim=(0.7, None))
    axes.set_ylim(0.7, 1.01)
    axes.legend()


def draw_latency(axes: Axes, results: Results) -> None:
    """Medians of each policy where one node changed before each request, and the floor of the first policy."""
    sizes = sorted((int(key.removeprefix("nodes=")), key) for key in results if key.startswith("nodes="))
    nodes = [size for size, _ in sizes]
    # As it is installed, by policy; other keys are other measurements.
    policies = [name for name in results[sizes[0][1]] if name.startswith("installed/")]
    for name in policies:
        together = [results[key][name]["busy"]["together"] for _, key in sizes]
        (line,) = axes.plot(
            nodes, [each["p50_ms"] for each in together], marker="o", label=f"{name.partition('/')[2]}, median"
        )
        axes.plot(nodes, [each["p99_ms"] for each in together], color=line.get_color(), linestyle=":")
    floor = [results[key][policies[0]]["busy"]["together"]["floor_p50_ms"] for _, key in sizes]
    axes.plot(nodes, floor, color="grey", linestyle="--", marker="o", label="floor, median")
    axes.set(xscale="log", yscale="log", xlabel="nodes of 8 cards", ylabel="filter and prioritize, ms (dotted: p99)")
    times = [0.25, 0.5, 1, 2, 4, 8]
    axes.set_yticks(times, map(str, times))
    axes.set_xticks(nodes, [f"{size:,}" for size in nodes])
    axes.minorticks_off()
    axes.legend()


def draw_pods_per_second(axes: Axes, results: Results) -> None:
    """A dot for each round, and a line at the median."""
    ways = [name for name, each in results.items() if isinstance(each, dict) and "pods_per_second" in each]
    for place, way in enumerate(ways):
        rates = results[way]["pods_per_second"]
        axes.plot([place] * len(rates), rates, linestyle="", marker="o", alpha=0.5)
        axes.hlines(results[way]["median"], place - 0.3, place + 0.3, color="black")
    axes.set(xticks=range(len(ways)), xticklabels=ways, ylabel=f"pods per second, {results['nodes']} nodes")
    axes.set_ylim(bottom=0)


PLOTS: dict[str, tuple[str, Callable[[Axes, Results], None]]] = {
    "allocation.json": ("allocation.svg", draw_allocation),
    "filter.json": ("latency.svg", draw_latency),
    "scheduler.json": ("pods-per-second.svg", draw_pods_per_second),
}


def draw(results: Path, out: Path) -> list[Path]:
    """Draw what there are results for; return the files."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - no dependency of ours
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as exc:
        raise SystemExit(f"{exc}; run `make .venv/dev` in a checkout, or `pip install matplotlib`") from exc
    # Letters stay letters, and equal results give equal files.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "accelkit"})
    drawn = []
    for source, (name, plot) in PLOTS.items():
        if not (results / source).exists():
            continue
        figure = Figure(figsize=(6.4, 4), layout="constrained")
        plot(figure.subplots(), json.loads((results / source).read_text()))
        out.mkdir(parents=True, exist_ok=True)
        figure.savefig(out / name, metadata={"Date": None})
        drawn.append(out / name)
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="folder with results, as JSON")
    parser.add_argument("out", type=Path, help="folder for the plots; made if absent")
    options = parser.parse_args()
    drawn = draw(options.results, options.out)
    if not drawn:
        raise SystemExit(f"{options.results} has none of {', '.join(PLOTS)}; `make bench` writes them into build/bench")
    print(*drawn, sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main()
