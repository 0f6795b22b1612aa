"""Plug-ins: profiles, dialects, policies and memory sources of other distributions, found by their entry points."""
