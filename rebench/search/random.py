"""Random search: the baseline of every comparison."""

from __future__ import annotations

from rebench.search.base import Query, Searcher, register

__all__ = ["RandomSearch"]


@register("random")
class RandomSearch(Searcher):
    """Train cells drawn uniformly, with replacement, for the epochs of the signal."""

    def ask(self) -> Query:
        """Return a random cell."""
        return Query(self.space.sample(self.generator), self.problem.signal)

    def tell(self, query: Query, value: float) -> None:
        """Ignore the accuracy: random search does not learn."""
