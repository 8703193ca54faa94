"""
Adapt
=====
"""
print(1)
