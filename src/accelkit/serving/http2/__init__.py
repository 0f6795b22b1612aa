"""HTTP/2 connections and their streams, with limits on the frames that clients send."""
