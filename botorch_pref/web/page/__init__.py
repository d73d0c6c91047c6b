"""The page: routes, their guard, and what they answer."""
