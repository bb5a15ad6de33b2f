"""Kernel sets on one CUDA GPU: sources in CUDA C++, and the Python that launches them through CuPy."""
