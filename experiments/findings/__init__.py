"""The pages of results in `docs/explanation`, filled with numbers from the tables."""
