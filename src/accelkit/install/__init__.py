"""What installs and removes accelkit on a cluster: the logic of the Ansible modules."""
