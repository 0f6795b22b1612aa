"""HTTP/2 connections, their streams, and the limits on frames that clients send."""
