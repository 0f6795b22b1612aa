"""Configuration of a host's kube-scheduler: functions that switch it to the extender, monitor it, and restore it.

Each module imports only modules that follow it in this list: `command` and the Ansible action, `perform` (runs an
action), `switch` (record, write, wait, undo), `launch` (the file that contains kube-scheduler's options), `arguments`,
`configuration` (the edited files and options) and `host` (files and commands of a host).
"""
