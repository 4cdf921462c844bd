"""Networks: the benchmark's, the DAG networks of the papers' experiments, stacked copies."""

__all__: list[str] = []
