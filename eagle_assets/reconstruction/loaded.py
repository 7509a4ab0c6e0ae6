"""Importing this loads all that judging needs: done before workers are forked, it is done for all of them."""

from __future__ import annotations

import gc

from eagle_assets.reconstruction.files import pieces  # noqa: F401
from eagle_assets.targets.kimi import known_targets
from eagle_assets.targets.prompt import load_renderers

known_targets()
load_renderers()
gc.freeze()  # none of this ever becomes garbage that a worker would have to look for
