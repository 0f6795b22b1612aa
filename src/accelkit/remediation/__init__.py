"""What the cluster does about cards that failed: cordon, condition, taint, drain, and all of it back again."""
