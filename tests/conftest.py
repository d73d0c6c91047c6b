"""Settings that every test shares."""

import torch
from hypothesis import settings

# The matrices of the tests are small and the tests run side by side: one thread each.
torch.set_num_threads(1)

# Same examples every time, and no deadline: the tests time nothing.
settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")
