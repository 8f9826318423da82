"""Hand-built measurements for tests: plain numbers that are easy to check."""

from kernels.device.backend import DeviceInfo
from kernels.device.clocks import Timing
from kernels.device.gpu_state import GpuState
from kernels.measure.counters import CounterRun, KernelCounters
from kernels.measure.document import Document
from kernels.measure.measurement import Measurement, PeerResult
from kernels.measure.roofline import Ceiling
from kernels.measure.series import SweepView
from kernels.problem import AttentionProblem
from kernels.traffic.operations import Operation

DEVICE = DeviceInfo("cuda", "NVIDIA H200", "2.11.0", "3.6.0", "3.12.3", "580.1", 132, 150_000_000_000)
DATE = "2026-11-21T03:00:00+00:00"
STATE = GpuState(1755.0, 1980.0, 1980.0, 690.0, 51.0, ("power limit",), 9)
LENGTHS = (512, 1024, 2048, 4096)
VIEW = SweepView("length", 1024, 64, "float16", "full", q_heads=4)


def measurement(length, batch=1, heads=4, direction="forward", naive_fits=True, gpu=STATE, **changes):
    """Standard attention takes N^2 in time and memory; ours a tenth of the time, and N in memory."""
    problem = AttentionProblem(batch, heads, heads, length, length, **changes)
    time = batch * (length / 512) ** 2
    timings = Timing(time, 0.9 * time, 1.1 * time, 20), Timing(time / 10, time / 11, time / 6, 20)
    naive = PeerResult("naive", timings[0], batch * length**2, direction=direction)
    if not naive_fits:
        refused = "needs 68.0 GB, 24.0 GB free"
        naive = PeerResult("naive", refused=refused, direction=direction, out_of_memory=True)
    ours = PeerResult("ours", timings[1], batch * length * 100, direction=direction)
    return Measurement(problem, DEVICE, DATE, (naive, ours), gpu)


def counter_run(peer="ours", direction="forward", counted=600e6, dram=60e6):
    metrics = {
        "gpu__time_duration.sum": 1e6,
        "dram__bytes_read.sum": 0.75 * dram,
        "dram__bytes_write.sum": 0.25 * dram,
        "lts__t_bytes.sum": 7e8,
    }
    problem = AttentionProblem(q_heads=16, kv_heads=16, q_len=4096, kv_len=4096)
    kernels = (KernelCounters("_attn_fwd", metrics),)
    of_call = Operation("_attn_fwd", int(0.9 * counted), int(0.1 * counted), "64x128 tiles")
    return CounterRun(problem, peer, direction, DEVICE, DATE, kernels, (of_call,) if counted else ())


def document():
    """A sweep over four lengths, two ceilings and the counters of two calls."""
    return Document(
        command="python -m kernels.record",
        measurements=tuple(measurement(length, naive_fits=length < 4096) for length in LENGTHS),
        ceilings=(
            Ceiling("copy", "", 8e9, Timing(2.0, 1.9, 2.1, 20), DEVICE, DATE),
            Ceiling("product", "float16", 1.2e12, Timing(2.0, 1.9, 2.1, 20), DEVICE, DATE),
        ),
        counters=(counter_run(), counter_run("naive", counted=3e9, dram=2.7e9)),
        left_out=("naive N 16384",),
    )


NCU_HEADER = (
    '"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum",'
    '"lts__t_bytes.sum"'
)
SOFTMAX = "void at::native::(anonymous namespace)::softmax_forward<float, 4>(float*, int)"
NCU_CSV = f"""==PROF== Connected to process 77
{NCU_HEADER}
"","","byte","byte","ns","byte"
"0","at::cuda::<unnamed>::spin_kernel(long)","0","0","1","0"
"1","{SOFTMAX}","1,536,500","2048","12500","5000000"
"2","_attn_fwd","1","2","3","4"
"3","at::cuda::<unnamed>::spin_kernel(long)","0","0","1","0"
"4","sm90_gemm","7","8","9","n/a"
"""
"""What ncu prints for two calls: a marker before each, thousands separators, one counter missing."""
