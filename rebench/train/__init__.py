"""One trial to one record: the protocol, the loop, checkpoints."""

__all__: list[str] = []
