"""Pure tensor functions: no models, no state."""
