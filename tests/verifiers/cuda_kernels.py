"""CUDA sources as responses contain them, beside the host functions that call them."""

_HOST = """
torch::Tensor host(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const int threads = 256;
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "host", ([&] {
        NAME<<<(x.numel() + threads - 1) / threads, threads>>>(
            x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
    }));
    return out;
}
"""
_HEAD = "#include <torch/extension.h>\n#include <cuda_runtime.h>\n#include <cmath>\n"
_KERNELS = {
    "gelu": """
__device__ __forceinline__ float gelu(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}
__global__ void NAME(const float* __restrict__ x, float* __restrict__ y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = gelu(x[i]);
}""",
    "softmax by warps": """
#define WARP 32
__inline__ __device__ float warp_max(float v) {
    #pragma unroll
    for (int at = WARP / 2; at > 0; at >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, at));
    return v;
}
__global__ void NAME(const float* x, float* y, int n) {
    extern __shared__ float row[];
    float top = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) { row[i] = x[i]; top = fmaxf(top, row[i]); }
    top = warp_max(top);
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(row[i] - top);
    atomicAdd(&y[0], sum);
}""",
    "a tiled product": """
constexpr int TILE = 16;
template <int N>
__global__ __launch_bounds__(N * N) void tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float as[N][N], bs[N][N];
    float sum = 0;
    for (int t = 0; t < n / N; ++t) {
        as[threadIdx.y][threadIdx.x] = a[(blockIdx.y * N + threadIdx.y) * n + t * N + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t * N + threadIdx.y) * n + blockIdx.x * N + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < N; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[(blockIdx.y * N + threadIdx.y) * n + blockIdx.x * N + threadIdx.x] = sum;
}
__global__ void NAME(const float* x, float* y, int n) { y[threadIdx.x] = x[n] * TILE; }
template __global__ void tiled<TILE>(const float*, const float*, float*, int);""",
    "vectors, constants and assembly": """
__constant__ float weights[64];
struct __align__(16) Four { float x, y, z, w; };
static __device__ unsigned int counter = 0;
__global__ void NAME(const float* x, float* y, int n) {
    const float4 v = reinterpret_cast<const float4*>(x)[threadIdx.x];
    unsigned lane;
    asm volatile("mov.u32 %0, %laneid;" : "=r"(lane));
    Four f{v.x, v.y, v.z, v.w};
    if (lane == 0) atomicInc(&counter, n);
    y[threadIdx.x] = f.x * weights[lane] + __ldg(x) + rsqrtf(f.w);
}""",
    "a reduction in a namespace": """
namespace ops {
enum class Kind : int { SUM = 0, MAX };
template <typename T, Kind K>
struct Op {
    __device__ static T join(T a, T b) { return K == Kind::SUM ? a + b : (a > b ? a : b); }
};
inline int host_helper(int n) { return std::min(n, 1024); }
__global__ void NAME(const float* x, float* y, int64_t n) {
    float v = -FLT_MAX;
    for (int64_t i = threadIdx.x; i < n; ++i) v = Op<float, Kind::MAX>::join(v, x[i]);
    if (threadIdx.x == 0) printf("%f\\n", v);
    y[0] = v;
}
}  // namespace ops
using ops::NAME;""",
    "tensor cores": """
__global__ void NAME(const float* x, float* y, int n) {
    unsigned a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
    float c[4] = {x[0], x[1], x[2], x[3]};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    y[threadIdx.x] = c[threadIdx.x & 3] + n;
}""",
}
KERNELS = {
    name: f"{_HEAD}{text}\n{_HOST}".replace("NAME", f"kernel_{at}")
    for at, (name, text) in enumerate(_KERNELS.items())
}
"""Name -> a source that nvcc takes, torch's headers given."""


def solution(source: str) -> str:
    """A response of KernelBench's form with this CUDA source."""
    return (
        "Here is the kernel:\n\n```python\nimport torch\nimport torch.nn as nn\n"
        "from torch.utils.cpp_extension import load_inline\n"
        f"source = {source!r}\n"
        "module = load_inline(name='m', cpp_sources='torch::Tensor host(torch::Tensor x);',\n"
        "                     cuda_sources=source, functions=['host'])\n"
        "class ModelNew(nn.Module):\n    def forward(self, x):\n"
        "        return module.host(x)\n```\n"
    )
