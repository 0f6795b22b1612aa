"""Serves HTTP on ports that strangers reach: everything they may send or hold has a bound."""
