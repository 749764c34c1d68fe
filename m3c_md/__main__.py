"""``python -m m3c_md`` is ``m3c-md``."""

from __future__ import annotations

import sys

from m3c_md.cli import main

sys.exit(main())
