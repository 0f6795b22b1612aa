"""Plug-ins: profiles, dialects, policies and memory sources from other distributions, found through entry points."""
