"""Checks of user input, in one place: each error names the value that is wrong and the remedy."""
