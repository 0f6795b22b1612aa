"""Plug-ins: profiles, dialects, policies and memory sources from other distributions, found by their entry points."""
