"""Tables from published results, and measurements on these tables."""
