"""The report: one HTML file that shows what was found, and needs nothing but a browser."""
