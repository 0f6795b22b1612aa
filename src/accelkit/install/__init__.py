"""Installation and removal of accelkit on a cluster: the logic of the Ansible modules."""
