"""Small attention kernels, each with one fault in its use of memory, or with none."""

import torch

import triton
import triton.language as tl

BLOCK = 32


@triton.jit
def _scores(q_tile, k_tile, keys, kv_len, scale, BUG: tl.constexpr):
    scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
    if BUG == "list_in_helper":
        return tl.where(keys[None, :] < kv_len, scores, min([float("-inf"), 0.0]))
    return tl.where(keys[None, :] < kv_len, scores, float("-inf"))


@triton.jit
def _attend(q, k, v, out, q_len, kv_len, scale, D: tl.constexpr, SIZE: tl.constexpr, BUG: tl.constexpr):
    """K is loaded without `other`: the scores of its missing rows are masked."""
    head, offs_d = tl.program_id(1).to(tl.int64), tl.arange(0, D)
    rows = tl.program_id(0) * (SIZE // 2 if BUG == "overlapping" else SIZE) + tl.arange(0, SIZE)
    m = tl.full((SIZE,), float("-inf"), tl.float32)
    l = tl.zeros((SIZE,), tl.float32)
    if BUG == "type_changes":
        l = 0
    acc = tl.zeros((SIZE, D), tl.float32)
    q_tile = tl.load(q + (head * q_len + rows[:, None]) * D + offs_d, mask=rows[:, None] < q_len, other=0.0)
    step = SIZE
    if BUG == "global_number":
        step = BLOCK
    for first in range(0, kv_len, step):
        keys = first + tl.arange(0, SIZE)
        exists = keys[:, None] < kv_len
        if BUG == "reads_past_keys":
            k_tile = tl.load(k + (head * kv_len + keys[:, None]) * D + offs_d)  # reads past the end
        else:
            k_tile = tl.load(k + (head * kv_len + keys[:, None]) * D + offs_d, mask=exists)
        if BUG == "uses_undefined":  # the weights of these lanes are 0: 0 times an undefined value
            v_tile = tl.load(v + (head * kv_len + keys[:, None]) * D + offs_d, mask=exists)
        else:
            v_tile = tl.load(v + (head * kv_len + keys[:, None]) * D + offs_d, mask=exists, other=0.0)
        scores = _scores(q_tile, k_tile, keys, kv_len, scale, BUG)
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp(scores - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v_tile.dtype), v_tile)
        m = m_new
    o = (acc / l[:, None]).to(out.dtype.element_ty)
    if BUG == "writes_past_output":
        tl.store(out + (head * q_len + rows[:, None]) * D + offs_d, o)  # writes past the end
    else:
        tl.store(out + (head * q_len + rows[:, None]) * D + offs_d, o, mask=rows[:, None] < q_len)


def _flash(query, key, value, out=None, bug=""):
    query, key, value = (tensor.contiguous() for tensor in (query, key, value))
    batch, heads, q_len, head_dim = query.shape
    out = torch.empty_like(query) if out is None else out
    grid = (triton.cdiv(q_len, BLOCK // 2 if bug == "overlapping" else BLOCK), batch * heads)
    scale = head_dim**-0.5
    _attend[grid](query, key, value, out, q_len, key.shape[2], scale, D=head_dim, SIZE=BLOCK, BUG=bug)
    return out


def _with(bug):
    return lambda query, key, value: _flash(query, key, value, bug=bug)


right = _with("")
overlapping = _with("overlapping")  # two programs write the same values to the same rows: wasteful, and right
reads_past_keys = _with("reads_past_keys")
writes_past_output = _with("writes_past_output")
uses_undefined = _with("uses_undefined")
type_changes = _with("type_changes")
global_number = _with("global_number")
list_in_helper = _with("list_in_helper")
REFUSED_BY_THE_COMPILER = {
    "type_changes": ("for first in range(0, kv_len, step):", "variable l "),
    "global_number": ("step = BLOCK", "BLOCK"),
    "list_in_helper": ("return tl.where(keys[None, :] < kv_len, scores, min(", "min "),
}
"""Kernels that the interpreter runs, and right: the line that is refused, and words of the refusal."""


def _rows(out):
    return out.numel() // out.shape[-1]


def _over_rows(kernel, out, *tensors, rows=None, **constants):
    """Launch a kernel on the tensors, with a program per BLOCK rows of `out`; it is told of so many rows."""
    grid = (triton.cdiv(_rows(out), BLOCK),)
    kernel[grid](*tensors, rows or _rows(out), out.shape[-1], BLOCK, **constants)


@triton.jit
def _with_scratch(out, scratch, lock, rows, D: tl.constexpr, BLOCK: tl.constexpr, HOW: tl.constexpr):
    program, offs_d = tl.program_id(0), tl.arange(0, D)
    at = program * BLOCK + tl.arange(0, BLOCK)
    offsets = at[:, None] * D + offs_d
    o = tl.load(out + offsets, mask=at[:, None] < rows, other=0.0).to(tl.float32)
    if HOW == "reads":
        factor = tl.load(scratch + at, mask=at < rows, other=1.0)
        o *= tl.where(factor > 0, 1.0, 1.0)[:, None]
    elif HOW == "counts programs":
        o += tl.atomic_add(scratch, 1.0)  # how many programs ran before this one
    elif HOW == "hands on":
        before = tl.load(scratch + program)  # written by the program before, if it ran before
        o += before
        tl.store(scratch + program + 1, before + 1.0)
    elif HOW == "adds":
        tl.atomic_add(scratch + offs_d, tl.sum(o, axis=0))
    else:
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        tl.store(scratch + offs_d, tl.load(scratch + offs_d) + tl.sum(o, axis=0))
        tl.atomic_xchg(lock, 0)
    tl.store(out + offsets, o.to(out.dtype.element_ty), mask=at[:, None] < rows)


def _then(how, make=torch.zeros):
    """Attention, and then a kernel that uses scratch memory, which `make` makes."""

    def attention(query, key, value):
        out = _flash(query, key, value)
        scratch, lock = make(_rows(out), dtype=torch.float32), torch.zeros(1, dtype=torch.int32)
        _over_rows(_with_scratch, out, out, scratch, lock, HOW=how)
        return out

    return attention


reads_unwritten_scratch = _then("reads", torch.empty)
adds_how_many_ran_before = _then("counts programs")
hands_on_a_sum = _then("hands on")
adds_up_with_atomics = _then("adds")
adds_up_from_nothing = _then("adds", torch.empty)
adds_up_under_a_lock = _then("adds under a lock")


@triton.jit
def _note_program(out, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, 2 * BLOCK)  # half of the next program's rows too
    values = tl.zeros((2 * BLOCK, D), out.dtype.element_ty) + tl.program_id(0)
    tl.store(out + at[:, None] * D + tl.arange(0, D), values, mask=at[:, None] < rows)


def writes_rows_of_others(query, key, value):
    out = torch.empty_like(query)
    _over_rows(_note_program, out, out)
    return _flash(query, key, value, out)


@triton.jit
def _split(q, k, v, parts, sums, q_len, kv_len, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    head, part, programs = tl.program_id(1).to(tl.int64), tl.program_id(2), tl.num_programs(2)
    rows, keys = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), part * BLOCK + tl.arange(0, BLOCK)
    offs_d = tl.arange(0, D)
    row, key = rows[:, None] < q_len, keys[:, None] < kv_len
    q_tile = tl.load(q + (head * q_len + rows[:, None]) * D + offs_d, mask=row, other=0.0)
    k_tile = tl.load(k + (head * kv_len + keys[:, None]) * D + offs_d, mask=key, other=0.0)
    v_tile = tl.load(v + (head * kv_len + keys[:, None]) * D + offs_d, mask=key, other=0.0)
    scores = tl.dot(q_tile, tl.trans(k_tile)) * scale
    scores = tl.where(keys[None, :] < kv_len, scores, float("-inf"))
    m = tl.max(scores, axis=1)
    p = tl.exp(scores - m[:, None])
    l = tl.sum(p, axis=1)
    place = (head * programs + part) * q_len + rows
    tl.store(sums + place, m + tl.log(l), mask=rows < q_len)
    o = tl.dot(p, v_tile.to(tl.float32)) / l[:, None]
    tl.store(parts + place[:, None] * D + offs_d, o, mask=row)


@triton.jit
def _combine(parts, sums, out, q_len, PARTS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    head, rows = tl.program_id(1).to(tl.int64), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_d = tl.arange(0, D)
    m = tl.full((BLOCK,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for part in range(PARTS):
        place = (head * PARTS + part) * q_len + rows
        lse = tl.load(sums + place, mask=rows < q_len, other=0.0)
        o = tl.load(parts + place[:, None] * D + offs_d, mask=rows[:, None] < q_len, other=0.0)
        m_new = tl.maximum(m, lse)
        acc = acc * tl.exp(m - m_new)[:, None] + o * tl.exp(lse - m_new)[:, None]
        l = l * tl.exp(m - m_new) + tl.exp(lse - m_new)
        m = m_new
    o = (acc / l[:, None]).to(out.dtype.element_ty)
    tl.store(out + (head * q_len + rows[:, None]) * D + offs_d, o, mask=rows[:, None] < q_len)


def split_kv(query, key, value):
    """Partial results go through scratch memory."""
    batch, heads, q_len, head_dim = query.shape
    parts = triton.cdiv(key.shape[2], BLOCK)
    shape = (batch * heads, parts, q_len)
    partial, sums = (torch.empty(each, dtype=torch.float32) for each in ((*shape, head_dim), shape))
    out, grid = torch.empty_like(query), (triton.cdiv(q_len, BLOCK), batch * heads)
    scale = head_dim**-0.5
    _split[(*grid, parts)](query, key, value, partial, sums, q_len, key.shape[2], scale, head_dim, BLOCK)
    _combine[grid](partial, sums, out, q_len, shape[1], head_dim, BLOCK)
    return out


@triton.jit
def _by_block_pointer(source, out, rows, D: tl.constexpr, BLOCK: tl.constexpr, LOAD: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    loads = tl.make_block_ptr(source, (rows, D), (D, 1), (at, 0), (BLOCK, D), (1, 0))
    stores = tl.make_block_ptr(out, (rows, D), (D, 1), (at, 0), (BLOCK, D), (1, 0))
    if LOAD == "checked":
        tile = tl.load(loads, boundary_check=(0,), padding_option="zero")
    elif LOAD == "not padded":
        tile = tl.load(loads, boundary_check=(0,))
        tile += (0 * tl.sum(tile)).to(tile.dtype)  # uses the lanes that the check leaves out
    else:
        tile = tl.load(loads)  # it needs its boundary check
    tl.store(stores, tile, boundary_check=(0,))


def _copied(load):
    def attention(query, key, value):
        out = _flash(query, key, value)
        copy = torch.empty_like(out)
        _over_rows(_by_block_pointer, out, out, copy, LOAD=load)
        return copy

    return attention


copies_by_block_pointer = _copied("checked")
copies_by_unpadded_block_pointer = _copied("not padded")
copies_by_unchecked_block_pointer = _copied("not checked")


@triton.jit
def _by_descriptor(source, out, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    loads = tl.make_tensor_descriptor(source, [rows, D], [D, 1], [BLOCK, D])
    stores = tl.make_tensor_descriptor(out, [rows, D], [D, 1], [BLOCK, D])
    stores.store([at, 0], loads.load([at, 0]))


def copies_by_descriptor(query, key, value, claimed=0):
    out = _flash(query, key, value)
    copy = torch.empty_like(out)
    _over_rows(_by_descriptor, out, out, copy, rows=_rows(out) + claimed)
    return copy


copies_by_descriptor_of_too_many_rows = lambda *qkv: copies_by_descriptor(*qkv, claimed=1)  # noqa: E731

EXPECTED = {
    "right": set(),
    "overlapping": set(),
    "reads_past_keys": {"out-of-bounds read"},
    # past the end of a head lies the next head: its rows are overwritten by whoever comes last
    "writes_past_output": {"out-of-bounds write", "write conflict", "order dependence"},
    "reads_unwritten_scratch": {"read of unwritten memory"},
    "writes_rows_of_others": {"write conflict"},
    "adds_how_many_ran_before": {"order dependence"},
    "hands_on_a_sum": {"order dependence"},
    "split_kv": set(),
    "adds_up_with_atomics": set(),
    "adds_up_from_nothing": {"read of unwritten memory"},
    "adds_up_under_a_lock": set(),
    "copies_by_block_pointer": set(),
    "uses_undefined": {"use of an undefined value"},
    "copies_by_unpadded_block_pointer": {"use of an undefined value"},
    "copies_by_unchecked_block_pointer": {"out-of-bounds read"},
    "copies_by_descriptor": set(),
    "copies_by_descriptor_of_too_many_rows": {"out-of-bounds read", "out-of-bounds write"},
}
"""Name of a function to the kinds of its findings."""
