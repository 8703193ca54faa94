"""Base classes and helpers of methods: the method interface, search spaces, and shared predictors."""
