"""The policy `topology`, which ranks sets of cards by their connections and preserves groups of connected cards."""
