"""What methods are built from: the contract of a method, its search space, and shared predictors."""
