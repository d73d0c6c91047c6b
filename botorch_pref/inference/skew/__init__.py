"""Exact sampling of unified skew-normal posteriors."""
