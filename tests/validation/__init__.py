"""Tests of the comparison of methods and of the scan over numbers of states."""
