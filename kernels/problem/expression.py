"""A mask in words that a reader types: `k <= q and doc(q) == doc(k)`. Parsed, never evaluated as Python.

`q` is the position of a query among the keys (its row + kv_len - q_len, as for a causal mask), `k` that of a
key, `h` the query head, `b` the batch, `doc(q)` and `doc(k)` the number of their document. Kernels compile
the same nodes (`kernels.primitives.mods`). `bounds` gives what a part can be on a whole tile, so that most
tiles are known to be full or hidden without a look at their pairs.
"""

import ast
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from kernels.problem.invalid import InvalidProblem

LONGEST = 200
MOST_NODES = 60
NUMBERS = ("q", "k", "h", "b")
ALLOWED = (
    "expected a condition of q, k, h, b, doc(q), doc(k) and whole numbers with + - * // % abs(), "
    "< <= > >= == !=, and, or, not"
)
FARTHEST, MOST_HEADS = 1 << 20, 1 << 10
RANGES: dict[str, tuple[Any, Any]] = {
    **dict.fromkeys(("q", "k", "doc(q)", "doc(k)"), (-FARTHEST, FARTHEST)),
    **dict.fromkeys(("h", "b"), (0, MOST_HEADS)),
}
"""What each name can be in any problem."""


@dataclass(frozen=True, repr=False)
class Node:
    """An operation on its parts, a name, or a number. A part that is missing is None.

    Kernels are compiled by it: its words and its hash are made once, as every launch asks for them.
    """

    op: str
    left: "Node | None" = None
    right: "Node | None" = None
    number: int = 0

    @functools.cached_property
    def words(self) -> str:
        """The node as text, its parts in brackets."""
        if self.op == "number":
            return str(self.number)
        parts = [repr(part) for part in (self.left, self.right) if part]
        return f"({f' {self.op} '.join(parts)})" if len(parts) == 2 else self.op + "".join(parts)

    def __repr__(self) -> str:
        return self.words

    def __hash__(self) -> int:
        return hash(self.words)

    @property
    def asks_documents(self) -> bool:
        return not {"doc(q)", "doc(k)"}.isdisjoint(self.names())

    def names(self) -> Iterator[str]:
        """The names and operations in it, each as often as it stands there."""
        yield self.op
        for part in (self.left, self.right):
            if part:
                yield from part.names()


def _mod(value: Any, divisor: Any) -> Any:
    return (value % divisor + divisor) % divisor


OPERATIONS: dict[str, Callable[..., Any]] = {
    "or": operator.or_,
    "and": operator.and_,
    "not": lambda value: value == 0,
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": lambda value, divisor: (value - _mod(value, divisor)) // divisor,
    "%": _mod,
    "abs": abs,
}
_LOGIC = ("or", "and", "not")
_CONDITIONS = (*_LOGIC, "==", "<", "<=")
_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
_COMPARED = {
    ast.LtE: ("<=", False, False),
    ast.Lt: ("<", False, False),
    ast.GtE: ("<=", True, False),
    ast.Gt: ("<", True, False),
    ast.Eq: ("==", False, False),
    ast.NotEq: ("==", False, True),
}
"""Each comparison as one of three: (operation, whether its sides are exchanged, whether it is negated)."""


def evaluate(node: Node, values: Mapping[str, Any]) -> Any:
    """The node with these values of its names: numbers or arrays that broadcast."""
    if node.op == "number":
        return node.number
    if node.op in values:
        return values[node.op]
    return OPERATIONS[node.op](*(evaluate(part, values) for part in (node.left, node.right) if part))


def bounds(node: Node, ranges: Mapping[str, tuple[Any, Any]]) -> tuple[Any, Any]:
    """Least and largest value of the node if each name lies in its range; a condition is 0 or 1.

    The true values may lie closer together: the ranges of two parts count as independent.
    """
    if node.op == "number":
        return node.number, node.number
    if node.op in ranges:
        return ranges[node.op]
    (low, high), *other = (bounds(part, ranges) for part in (node.left, node.right) if part)
    if node.op == "not":
        return 1 - high, 1 - low
    if node.op == "abs":
        at_zero = (low <= 0) & (high >= 0)
        return np.where(at_zero, 0, np.minimum(abs(low), abs(high))), np.maximum(abs(low), abs(high))
    from_, to = other[0]
    if node.op in ("or", "and"):
        pick = np.maximum if node.op == "or" else np.minimum
        return pick(low, from_), pick(high, to)
    if node.op in ("<", "<="):
        compare = OPERATIONS[node.op]
        return compare(high, from_) * 1, compare(low, to) * 1
    if node.op == "==":
        is_one = (low == high) & (from_ == to) & (low == from_)
        return is_one * 1, ((low <= to) & (from_ <= high)) * 1
    if node.op == "%":
        is_whole = (low // from_) == (high // from_)
        return np.where(is_whole, low % from_, 0), np.where(is_whole, high % from_, from_ - 1)
    results = [OPERATIONS[node.op](a, b) for a in (low, high) for b in (from_, to)]
    return np.minimum.reduce(results), np.maximum.reduce(results)


class _Parser:
    def __init__(self, text: str, field: str) -> None:
        self.text, self.field, self.nodes = text, field, 0

    def refuse(self, node: ast.AST | None, reason: str, column: int = 0) -> NoReturn:
        place = getattr(node, "col_offset", column) + 1
        raise InvalidProblem(self.field, self.text, f"column {place}: {reason}")

    def node(self, tree: ast.AST) -> Node:
        self.nodes += 1
        if self.nodes > MOST_NODES:
            self.refuse(tree, f"expected at most {MOST_NODES} names, numbers and operations")
        match tree:
            case ast.BoolOp(op=op, values=values):
                word = "and" if isinstance(op, ast.And) else "or"
                return self.chain(word, [self.condition(value) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Node("not", self.condition(operand))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.bounded(tree, Node("-", Node("number"), self.number(operand)))
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [self.number(side) for side in (left, *others)]
                pairs = zip(ops, sides, sides[1:], strict=False)
                return self.chain("and", [self.comparison(tree, *pair) for pair in pairs])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                name = _ARITHMETIC[type(op)]
                if name in ("//", "%") and not (isinstance(right, ast.Constant) and right.value):
                    self.refuse(right, f"{name} divides by a whole number from 1")
                return self.bounded(tree, Node(name, self.number(left), self.number(right)))
            case ast.Call(func=ast.Name(id="abs"), args=[argument], keywords=[]):
                return Node("abs", self.number(argument))
            case ast.Call(func=ast.Name(id="doc"), args=[ast.Name(id=("q" | "k") as name)], keywords=[]):
                return Node(f"doc({name})")
            case ast.Name(id=name) if name in NUMBERS:
                return Node(name)
            case ast.Constant(value=int(value)) if not isinstance(value, bool) and value <= FARTHEST:
                return Node("number", number=value)
        self.refuse(tree, f"{ast.get_source_segment(self.text, tree)!r} stands here; {ALLOWED}")

    def chain(self, word: str, parts: list[Node]) -> Node:
        whole = parts[0]
        for part in parts[1:]:
            whole = Node(word, whole, part)
        return whole

    def comparison(self, tree: ast.AST, op: ast.cmpop, left: Node, right: Node) -> Node:
        if type(op) not in _COMPARED:
            self.refuse(tree, f"this comparison stands here; {ALLOWED}")
        name, is_exchanged, is_negated = _COMPARED[type(op)]
        compared = Node(name, right, left) if is_exchanged else Node(name, left, right)
        return Node("not", compared) if is_negated else compared

    def condition(self, tree: ast.AST) -> Node:
        node = self.node(tree)
        if node.op not in _CONDITIONS:
            self.refuse(tree, "a number stands where a condition is expected, such as k <= q")
        return node

    def number(self, tree: ast.AST) -> Node:
        node = self.node(tree)
        if node.op in _CONDITIONS:
            self.refuse(tree, "a condition stands where a number is expected")
        return node

    def bounded(self, tree: ast.AST, node: Node) -> Node:
        """Kernels compute in 32 bits."""
        if max(abs(int(bound)) for bound in bounds(node, RANGES)) >= 1 << 31:
            self.refuse(tree, "this can exceed 32 bits for the longest sequences")
        return node


@functools.lru_cache(maxsize=64)
def parse(text: str, field: str = "expression") -> Node:
    """The condition in `text`. Raises InvalidProblem of `field`: at which column, and what is allowed."""
    text = text.strip()
    parser = _Parser(text, field)
    if len(text) > LONGEST:
        raise InvalidProblem(field, text, f"expected at most {LONGEST} characters")
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        parser.refuse(None, f"this is not an expression; {ALLOWED}", (error.offset or len(text) + 1) - 1)
    except (ValueError, RecursionError, MemoryError):
        parser.refuse(None, f"this is not an expression; {ALLOWED}")
    return parser.condition(tree)
