"""The deeptime-style faces of the methods: estimators and their models."""
