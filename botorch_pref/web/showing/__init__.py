"""Options as a person sees them."""
