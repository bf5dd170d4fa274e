"""Access to the Matplotlib figures that a module makes."""

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def keep_figures(monkeypatch):
    """`keep_figures(module)` returns a list that collects every figure the module makes."""

    def keep(module):
        made = []

        class Kept(Figure):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                made.append(self)

        monkeypatch.setattr(module, "Figure", Kept)
        return made

    return keep
