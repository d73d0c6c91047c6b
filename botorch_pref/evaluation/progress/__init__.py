"""Progress of an experiment: agreement, coverage, best option and remaining gain."""
