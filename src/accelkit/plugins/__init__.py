"""Plug-ins: profiles, dialects, policies and memory sources that other Python distributions provide as entry points."""
