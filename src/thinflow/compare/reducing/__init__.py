"""Shrinking a graph that makes something fail to the smallest graph that still does."""
