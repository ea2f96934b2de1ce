"""Keeps models up to date: passes over models whose upstreams changed, and the refresh of each model."""
