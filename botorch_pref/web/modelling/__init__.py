"""The next question and the findings, as models see them."""
