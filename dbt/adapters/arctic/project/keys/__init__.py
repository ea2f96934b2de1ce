"""Primary keys of models that configure none: from constraints, tests, time spines and the models below."""
