"""Fuzzing: random and mutated inputs for every part that reads what others wrote.

Each module of `targets` says what an input is and what must hold for it; `corpus` has the inputs that mutation begins
with. `python -m tests.fuzz` runs the targets for a time, guided by coverage where atheris is installed.
"""
