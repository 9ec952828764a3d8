"""The pipeline `cuda`: kernels in the form of KernelBench, rewarded by their speed-up."""
