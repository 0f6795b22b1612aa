"""Plug-ins: profiles, dialects, policies and memory sources that other distributions provide as entry points."""
