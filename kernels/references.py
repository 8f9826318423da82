"""Every source that kernels/ and viz/ cite, with its full title. Elsewhere a source is named by its key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """One source. A citation says its `key`: author and year, or a name if nobody or no year is given."""

    key: str
    authors: str
    title: str
    where: str
    """Where it was published; "" if the document does not say."""
    url: str
    """A public address; "" if none is known."""
    why: str
    """What this project takes from it, in one line."""

    @property
    def full(self) -> str:
        """Key, title and place of publication in one line."""
        return ", ".join(part for part in (self.key, self.title, self.where) if part)


_PAPERS = (
    Reference(
        key="Vaswani et al. 2017",
        authors="A. Vaswani, N. Shazeer, N. Parmar, J. Uszkoreit, L. Jones, A. N. Gomez, Ł. Kaiser, "
        "I. Polosukhin",
        title="Attention Is All You Need",
        where="NeurIPS 30; arXiv 1706.03762",
        url="https://arxiv.org/abs/1706.03762",
        why="Defines scaled dot-product attention and the layer around it.",
    ),
    Reference(
        key="Dao et al. 2022",
        authors="T. Dao, D. Fu, S. Ermon, A. Rudra, C. Ré",
        title="FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness",
        where="NeurIPS 35; arXiv 2205.14135",
        url="https://arxiv.org/abs/2205.14135",
        why="FlashAttention-1: tiles, the online softmax, recomputation, and the lower bound on traffic.",
    ),
    Reference(
        key="Dao 2023",
        authors="T. Dao",
        title="FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
        where="ICLR 2024; arXiv 2307.08691",
        url="https://arxiv.org/abs/2307.08691",
        why="FlashAttention-2: the query tile outside, lse instead of m and l; our main kernels.",
    ),
    Reference(
        key="Shah et al. 2024",
        authors="J. Shah, G. Bikshandi, Y. Zhang, V. Thakkar, P. Ramani, T. Dao",
        title="FlashAttention-3: Fast and Accurate Attention with Asynchrony and Low-precision",
        where="NeurIPS 37; arXiv 2407.08608",
        url="https://arxiv.org/abs/2407.08608",
        why="Overlapped loads, products and softmax on Hopper; 8-bit inputs.",
    ),
    Reference(
        key="Zadouri et al. 2026",
        authors="T. Zadouri, M. Hoehnerbach, J. Shah, T. Liu, V. Thakkar, T. Dao",
        title="FlashAttention-4: Algorithm and Kernel Pipelining Co-Design for Asymmetric Hardware Scaling",
        where="arXiv 2603.05451",
        url="https://arxiv.org/abs/2603.05451",
        why="Late rescaling and exponentials by polynomial on Blackwell.",
    ),
    Reference(
        key="Milakov and Gimelshein 2018",
        authors="M. Milakov, N. Gimelshein",
        title="Online Normalizer Calculation for Softmax",
        where="arXiv 1805.02867",
        url="https://arxiv.org/abs/1805.02867",
        why="Softmax in two passes over a row instead of three.",
    ),
    Reference(
        key="Wang et al. 2020",
        authors="S. Wang, B. Z. Li, M. Khabsa, H. Fang, H. Ma",
        title="Linformer: Self-Attention with Linear Complexity",
        where="arXiv 2006.04768",
        url="https://arxiv.org/abs/2006.04768",
        why="An approximation to contrast: keys and values projected to fewer rows.",
    ),
    Reference(
        key="Choromanski et al. 2021",
        authors="K. Choromanski, V. Likhosherstov, D. Dohan, X. Song and others",
        title="Rethinking Attention with Performers",
        where="ICLR 2021; arXiv 2009.14794",
        url="https://arxiv.org/abs/2009.14794",
        why="An approximation to contrast: random features instead of exponentials.",
    ),
    Reference(
        key="Beltagy, Peters and Cohan 2020",
        authors="I. Beltagy, M. E. Peters, A. Cohan",
        title="Longformer: The Long-Document Transformer",
        where="arXiv 2004.05150",
        url="https://arxiv.org/abs/2004.05150",
        why="An approximation to contrast: each query sees the keys near it.",
    ),
    Reference(
        key="Williams, Waterman and Patterson 2009",
        authors="S. Williams, A. Waterman, D. Patterson",
        title="Roofline: An Insightful Visual Performance Model for Multicore Architectures",
        where="Communications of the ACM 52(4), pages 65 to 76",
        url="https://doi.org/10.1145/1498765.1498785",
        why="The roofline: attainable speed from bytes and FLOPs.",
    ),
    Reference(
        key="Granlund and Montgomery 1994",
        authors="T. Granlund, P. L. Montgomery",
        title="Division by Invariant Integers using Multiplication",
        where="PLDI 1994",
        url="https://doi.org/10.1145/178243.178249",
        why="The division by a constant in the Hopper kernel.",
    ),
)

_LECTURES_AND_NOTES = (
    Reference(
        key="Chu, Liu and Lin 2026",
        authors="C.-H. Chu, Y.-X. Liu, C.-J. Lin",
        title="An Introduction to FlashAttention",
        where="lecture slides, 13 March 2026",
        url="",
        why="Algorithms 1 to 8, the gradients line by line, and the sizes of tiles that fit.",
    ),
    Reference(
        key="Nagaraj 2025",
        authors="B. Nagaraj",
        title="Flash Attention",
        where="notes, November 2025",
        url="",
        why="The derivative of softmax with deltas; a pseudocode whose D the Gradients chapter corrects.",
    ),
    Reference(
        key="MSRA SH Triton Study Group 2025",
        authors="MSRA SH Triton Study Group",
        title="5. Flash-Attention (Algorithm)",
        where="lecture slides, 15 August 2025",
        url="",
        why="Bytes and FLOPs of each step, with a perfect L2 cache and without one.",
    ),
    Reference(
        key="FlashAttention, step by step",
        authors="anonymous",
        title="FlashAttention — what it is, why we need it, and a step-by-step derivation",
        where="notes",
        url="",
        why="The row 3, 2, 5, 1, worked out by hand in blocks.",
    ),
    Reference(
        key="Making Attention I/O-Aware",
        authors="anonymous",
        title="FlashAttention: Making Attention I/O-Aware",
        where="blog post",
        url="",
        why="The five ideas and which needs which; sizes and speeds of an A100's memories.",
    ),
    Reference(
        key="Ye 2023",
        authors="Z. Ye",
        title="From Online Softmax to FlashAttention",
        where="course notes, CSE 599M, University of Washington",
        url="https://courses.cs.washington.edu/courses/cse599m/23sp/notes/flashattn.pdf",
        why="Attention in one pass, by a surrogate output.",
    ),
    Reference(
        key="Dao et al. 2023",
        authors="T. Dao, D. Haziza, F. Massa, G. Sizov",
        title="Flash-Decoding for long-context inference",
        where="PyTorch blog",
        url="https://pytorch.org/blog/flash-decoding/",
        why="Keys split into parts for decoding, merged by lse.",
    ),
)

_MAKERS = (
    Reference(
        key="CUDA C++ Programming Guide",
        authors="NVIDIA",
        title="CUDA C++ Programming Guide",
        where="docs.nvidia.com",
        url="https://docs.nvidia.com/cuda/cuda-c-programming-guide/",
        why="Operations per clock of an SM, and limits of each compute capability.",
    ),
    Reference(
        key="CUDA tuning guides",
        authors="NVIDIA",
        title="Tuning guides for Ampere, Hopper and Blackwell",
        where="docs.nvidia.com",
        url="https://docs.nvidia.com/cuda/hopper-tuning-guide/",
        why="Shared memory that one program can have.",
    ),
    Reference(
        key="NVIDIA A100 datasheet",
        authors="NVIDIA",
        title="NVIDIA A100 Tensor Core GPU datasheet",
        where="nvidia.com",
        url="https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/"
        "nvidia-a100-datasheet-nvidia-us-2188504-web.pdf",
        why="Peak and bandwidth of the A100.",
    ),
    Reference(
        key="NVIDIA H100 datasheet",
        authors="NVIDIA",
        title="NVIDIA H100 Tensor Core GPU datasheet",
        where="nvidia.com",
        url="https://www.nvidia.com/en-us/data-center/h100/",
        why="Peak and bandwidth of the H100.",
    ),
    Reference(
        key="NVIDIA H200 datasheet",
        authors="NVIDIA",
        title="NVIDIA H200 Tensor Core GPU datasheet",
        where="nvidia.com",
        url="https://www.nvidia.com/en-us/data-center/h200/",
        why="Peak and bandwidth of the H200.",
    ),
    Reference(
        key="NVIDIA Blackwell architecture brief",
        authors="NVIDIA",
        title="NVIDIA Blackwell Architecture Technical Brief",
        where="nvidia.com",
        url="",
        why="Peak and bandwidth of the B200.",
    ),
    Reference(
        key="OCP 2023",
        authors="Open Compute Project",
        title="OCP 8-bit Floating Point Specification (OFP8), revision 1.0",
        where="opencompute.org",
        url="",
        why="The 8-bit format e4m3 and its largest number.",
    ),
)

REFERENCES = _PAPERS + _LECTURES_AND_NOTES + _MAKERS
"""All sources: papers, then lectures and notes, then documents of makers and standards."""


@dataclass(frozen=True)
class Link:
    """An implementation or a text to read on with; nothing in this project rests on it."""

    name: str
    url: str
    why: str


READ_ON = (
    Link(
        "Dao-AILab/flash-attention",
        "https://github.com/Dao-AILab/flash-attention",
        "The authors' implementation, FlashAttention-1 to 4.",
    ),
    Link(
        "Triton, fused attention tutorial",
        "https://triton-lang.org/main/getting-started/tutorials/06-fused-attention.html",
        "A kernel in Triton that is easy to change.",
    ),
    Link(
        "NVIDIA/cutlass",
        "https://github.com/NVIDIA/cutlass",
        "C++ templates and CuTe, with attention examples.",
    ),
    Link(
        "facebookresearch/xformers",
        "https://github.com/facebookresearch/xformers",
        "One interface over several attention kernels.",
    ),
    Link(
        "PyTorch, scaled_dot_product_attention",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
        "Attention as PyTorch calls it; chooses among kernels.",
    ),
    Link(
        "Making Deep Learning Go Brrrr From First Principles",
        "https://horace.io/brrr_intro.html",
        "Memory, compute and overhead.",
    ),
    Link(
        "ELI5: FlashAttention",
        "https://gordicaleksa.medium.com/eli5-flash-attention-5c44017022ad",
        "The paper in small steps.",
    ),
    Link("Modal GPU Glossary", "https://modal.com/gpu-glossary", "Terms of GPU programming."),
    Link(
        "Flash Attention derived and coded from first principles with Triton",
        "https://www.youtube.com/watch?v=zy8ChVd_oTM",
        "A lecture by Umar Jamil.",
    ),
    Link("Triton documentation", "https://triton-lang.org", "The language of this project's kernels."),
)


def reference(key: str) -> Reference:
    """The source with this key. Raises KeyError, which names the key, if there is none."""
    return _BY_KEY[key]


_BY_KEY = {source.key: source for source in REFERENCES}
