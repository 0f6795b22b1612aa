"""Why a pod is pending, and what would let it in: `accelkit explain`."""
