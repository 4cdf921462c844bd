"""Small sweeps of ours, the plans that they test, and learning-rate surfaces."""
