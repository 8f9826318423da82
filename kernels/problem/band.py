"""The mask as a band around the diagonal. Only this file knows its bounds, "no bound" and clamping."""

from typing import NamedTuple


class Band(NamedTuple):
    """Query i sees key j if `-left <= j - (i + kv_len - q_len) <= right`: aligned to the bottom right.

    `left` and `right` lie between 0 and `unbounded`, a bound that no key reaches. Kernels take the band as
    it is, as one argument.
    """

    q_len: int
    kv_len: int
    left: int
    right: int

    @classmethod
    def of(cls, q_len: int, kv_len: int, left: int | None = None, right: int | None = None) -> "Band":
        """A band of these lengths; None leaves a side open, and a larger bound than needed is clamped."""
        unbounded = q_len + kv_len
        bounds = (unbounded if bound is None else min(bound, unbounded) for bound in (left, right))
        return cls(q_len, kv_len, *bounds)

    def of_rows(self, first: int, end: int) -> "Band":
        """The band that queries [first, end) alone have, as if there were no others.

        The bounds move, because the diagonal of fewer queries starts elsewhere; `right` may be negative.
        """
        moved = self.q_len - end
        left = self.left + moved if self.bounds_left else None
        right = self.right - moved if self.bounds_right else None
        return Band.of(end - first, self.kv_len, left, right)

    @property
    def unbounded(self) -> int:
        """A bound that no key reaches."""
        return self.q_len + self.kv_len

    @property
    def bounds_left(self) -> bool:
        """Whether the left bound can hide a key."""
        return self.left < self.unbounded

    @property
    def bounds_right(self) -> bool:
        """Whether the right bound can hide a key."""
        return self.right < self.unbounded

    @property
    def masks(self) -> bool:
        """Whether either bound can hide a key."""
        return self.bounds_left or self.bounds_right

    def visible_keys(self, row: int) -> tuple[int, int]:
        """Half-open range of the keys that query `row` sees; first == end if it sees none."""
        diagonal = row + self.kv_len - self.q_len
        first = max(diagonal - self.left, 0)
        return first, max(min(diagonal + self.right + 1, self.kv_len), first)

    @property
    def keyless_rows(self) -> int:
        """How many queries see no key: the first ones, if a right bound leaves more queries than keys."""
        return min(max(self.q_len - self.kv_len - self.right, 0), self.q_len)

    @property
    def visible_pairs(self) -> int:
        """Pairs of a query and a key that it sees: all ranges of `visible_keys` added up, in closed form."""
        first = self.kv_len - self.q_len
        return self._pairs_up_to(first + self.right) - self._pairs_up_to(first - self.left - 1)

    def _pairs_up_to(self, key: int) -> int:
        """Pairs if query i sees the keys up to `key` + i: a sum of i + key + 1, kept between 0 and kv_len."""
        end = self.q_len + key
        return _triangle(end) - _triangle(key) - _triangle(end - self.kv_len) + _triangle(key - self.kv_len)


def _triangle(number: int) -> int:
    """1 + 2 + ... + `number`; 0 if it is negative."""
    return max(number, 0) * (max(number, 0) + 1) // 2
