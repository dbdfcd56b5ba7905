"""Draws the causal graph as SVG: causes left, effects right, every node a link to its page."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from textwrap import wrap

from skewscope.kb.graph import edges
from skewscope.kb.graph_formats import GROUP_COLOURS
from skewscope.kb.model import Catalogue, Condition

BOX_WIDTH, LINE, PAD = 190, 15, 8
"""Of a node, in pixels: its width, the height of a line of text, the space around the text."""
GAP, COLUMN_GAP, MARGIN = 10, 90, 12
MAX_LINE_CHARACTERS = 25
"""Characters of a node's name in one line."""
ORDERING_PASSES = 24
"""Ordering passes over the columns; more change almost nothing."""

Edge = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Box:
    """The position of a node."""

    id: str
    x: float
    y: float
    height: float
    lines: tuple[str, ...]

    @property
    def centre_y(self) -> float:
        """Returns the height of its arrows."""
        return self.y + self.height / 2


def draw_graph(catalogue: Catalogue, suffix: str = "html") -> str:
    """Draws the whole graph; nodes link to `conditions/<id>.<suffix>`. Isolated conditions are omitted."""
    links = edges(catalogue)
    columns = _order_layers(_assign_layers(links), links)
    return _render(catalogue, columns, links, f"conditions/*.{suffix}", "The causal graph of all conditions")


def draw_neighbourhood(catalogue: Catalogue, id_: str, suffix: str = "html") -> str:
    """Draws a condition with its causes and effects; nodes link to `<id>.<suffix>`."""
    links = tuple(edge for edge in edges(catalogue) if id_ in edge[:2])
    causes = sorted(a for a, b, _ in links if b == id_)
    effects = sorted(b for a, b, _ in links if a == id_)
    columns = [column for column in (causes, [id_], effects) if column]
    name = catalogue.conditions[id_].name
    return _render(catalogue, columns, links, f"*.{suffix}", f"Causes and effects of {name}", strong=id_)


# Layers


def _assign_layers(links: Iterable[Edge]) -> list[list[str]]:
    """Returns nodes by their longest path from a root; roots move as near to their effects as possible."""
    after: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}
    for a, b, _ in links:
        after.setdefault(a, []).append(b)
        before.setdefault(b, []).append(a)
        after.setdefault(b, [])
        before.setdefault(a, [])
    depth = dict.fromkeys(sorted(after), 0)
    for node in _topological_order(after, before):
        for effect in after[node]:
            depth[effect] = max(depth[effect], depth[node] + 1)
    for node in depth:
        if not before[node]:
            depth[node] = min(depth[effect] for effect in after[node]) - 1
    columns: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node, level in depth.items():
        columns[level].append(node)
    return columns


def _topological_order(after: Mapping[str, list[str]], before: Mapping[str, list[str]]) -> list[str]:
    """Returns nodes with every cause before its effects; nodes on a cycle are omitted."""
    missing = {node: len(causes) for node, causes in before.items()}
    ready = [node for node in sorted(missing) if not missing[node]]
    for node in ready:
        for effect in after[node]:
            missing[effect] -= 1
            if not missing[effect]:
                ready.append(effect)
    return ready


def _order_layers(columns: list[list[str]], links: Iterable[Edge]) -> list[list[str]]:
    """Orders each column by the barycentre of the neighbours (Sugiyama 1981)."""
    beside: dict[str, list[str]] = {}
    for a, b, _ in links:
        beside.setdefault(a, []).append(b)
        beside.setdefault(b, []).append(a)
    place = {node: _relative_position(n, column) for column in columns for n, node in enumerate(column)}
    for sweep in range(ORDERING_PASSES):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            weight = {node: _mean([place[other] for other in beside[node]], place[node]) for node in column}
            column.sort(key=lambda node: (weight[node], node))
            place |= {node: _relative_position(n, column) for n, node in enumerate(column)}
    return columns


def _relative_position(n: int, column: list[str]) -> float:
    return (n + 0.5) / len(column)


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


# Drawing


def _render(
    catalogue: Catalogue,
    columns: list[list[str]],
    links: Iterable[Edge],
    page: str,
    title: str,
    strong: str = "",
) -> str:
    """Returns the drawing; `page` is the address of a condition's page with `*` for its id."""
    boxes = _place_boxes(catalogue, columns)
    groups = {catalogue.conditions[id_].group for id_ in boxes}
    width = max([len(groups) * 92, *(b.x + BOX_WIDTH for b in boxes.values())]) + MARGIN
    height = max((b.y + b.height for b in boxes.values()), default=0) + MARGIN + 30
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="skew-graph" role="group" aria-label="{escape(title)}"'
        f' viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">'
    )
    arrows = [_arrow(boxes[a], boxes[b], a, b, why, catalogue) for a, b, why in links]
    nodes = [
        _node(box, catalogue.conditions[box.id], page.replace("*", box.id), box.id == strong) for box in boxes.values()
    ]
    legend = _legend(sorted(groups), height)
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE, MARKER, *arrows, *nodes, *legend, "</svg>", ""])


def _legend(groups: list[str], height: float) -> list[str]:
    """Returns the legend of group colours for the foot."""
    return [
        f'<g class="{escape(group)}">'
        f'<rect class="band" x="{MARGIN + n * 92}" y="{height - 24:g}" width="12" height="12"/>'
        f'<text class="group" x="{MARGIN + 17 + n * 92}" y="{height - 14:g}">{escape(group)}</text></g>'
        for n, group in enumerate(groups)
    ]


def _place_boxes(catalogue: Catalogue, columns: list[list[str]]) -> dict[str, Box]:
    """Centres every column beside the tallest."""
    found: dict[str, Box] = {}
    lines = {
        id_: tuple(wrap(catalogue.conditions[id_].name, MAX_LINE_CHARACTERS)) for column in columns for id_ in column
    }
    heights = {id_: len(text) * LINE + 2 * PAD for id_, text in lines.items()}
    tall = [sum(heights[id_] + GAP for id_ in column) - GAP for column in columns]
    for n, column in enumerate(columns):
        y = MARGIN + (max(tall) - tall[n]) / 2
        for id_ in column:
            found[id_] = Box(id_, MARGIN + n * (BOX_WIDTH + COLUMN_GAP), y, heights[id_], lines[id_])
            y += heights[id_] + GAP
    return found


def _arrow(a: Box, b: Box, cause: str, effect: str, why: str, catalogue: Catalogue) -> str:
    """Draws a curve from cause to effect, with its reason as title."""
    x0, x1 = a.x + BOX_WIDTH, b.x - 3
    bend = max(36.0, (x1 - x0) / 2)
    bends = f"{x0 + bend:.1f} {a.centre_y:.1f} {x1 - bend:.1f} {b.centre_y:.1f}"
    names = f"{catalogue.conditions[cause].name} → {catalogue.conditions[effect].name}"
    told = escape(f"{names}: {why}" if why else names)
    return (
        f'<path class="edge" data-from="{escape(cause)}" data-to="{escape(effect)}"'
        f' d="M{x0:.1f} {a.centre_y:.1f}C{bends} {x1:.1f} {b.centre_y:.1f}"><title>{told}</title></path>'
    )


def _node(box: Box, c: Condition, target: str, strong: bool) -> str:
    group = escape(c.group)
    first = box.y + PAD + LINE * 0.75
    spans = "".join(
        f'<tspan x="{box.x + PAD + 4:g}" y="{first + n * LINE:g}">{escape(text)}</tspan>'
        for n, text in enumerate(box.lines)
    )
    mark = " here" if strong else ""
    return (
        f'<a href="{escape(target)}" class="node {group}{mark}" data-id="{escape(c.id)}">'
        f"<title>{escape(c.name)} ({group})</title>"
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{BOX_WIDTH}" height="{box.height:g}" rx="5"/>'
        f'<rect class="band" x="{box.x:g}" y="{box.y:g}" width="5" height="{box.height:g}" rx="2"/>'
        f"<text>{spans}</text></a>"
    )


_band_styles = "".join(f".skew-graph .{name} .band{{fill:{colour}}}" for name, colour in GROUP_COLOURS.items())
STYLE = (
    "<style>.skew-graph{background:#fff;font:12px/1.25 system-ui,sans-serif;max-width:none}"
    ".skew-graph .edge{fill:none;stroke:#98a2b3;stroke-width:1.1;marker-end:url(#skew-arrow)}"
    ".skew-graph .edge:hover,.skew-graph .edge.lit{stroke:#b42318;stroke-width:2.4}"
    ".skew-graph .node rect:first-of-type{fill:#f8fafc;stroke:#98a2b3}"
    ".skew-graph .node text,.skew-graph .group{fill:#101828}"
    ".skew-graph .node.here rect:first-of-type{fill:#fff4d6;stroke:#101828;stroke-width:1.6}"
    ".skew-graph .node:hover rect:first-of-type,.skew-graph .node:focus rect:first-of-type"
    "{stroke:#b42318;stroke-width:2.4}"
    ".skew-graph .node:focus{outline:none}"
    f"{_band_styles}</style>"
)
MARKER = (
    '<defs><marker id="skew-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#98a2b3"/></marker></defs>'
)
