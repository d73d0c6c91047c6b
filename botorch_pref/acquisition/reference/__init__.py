"""Points that challengers meet: the incumbent and the champion."""
