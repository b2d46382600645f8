"""The unbounded network, its layers and its blocks."""
