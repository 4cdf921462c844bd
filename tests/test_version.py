"""The version in records, of an installed package or of a checkout."""

from __future__ import annotations

import importlib.metadata

from rebench.version import version


def test_source_folder_without_installation_has_an_unknown_version(monkeypatch):
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    assert version() == importlib.metadata.version("nas-rebench")
    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert version() == "0+unknown"
