"""Names that no other line of ours mentions, and why they stay. vulture reads this file; nothing runs it."""

from __future__ import annotations

from typing import Any

_: Any = object()

# Ansible reads these of doc fragments and filters, and click calls these of a group.
_.ACTIONGROUP_API
_.ACTIONGROUP_REGISTRY
_.ACTIONGROUP_BOTH
_.CARDS
_.WORKLOAD
_.filters
_.list_commands
_.get_command

# Fields that are read from files and answers, or written into them, as a whole.
_.renew_time  # a Lease's
_.FailedAndUnresolvableNodes  # kube-scheduler's
_.Score
_.memory_source  # an inventory's
_.infiniband
_.virtual_functions
_.default_add_capabilities  # SecurityContextConstraints'
_.machines  # what a module answers
_.autoscaling
_.tiles  # a key of the dialect gas
_.SPREAD  # a value of an annotation

# Options of ruamel.yaml, rich and RE2.
_.preserve_quotes
_.explicit_start
_.default_flow_style
_.Representer
_.ignore_aliases
_.caption
_.max_mem
_.log_errors
_.never_nl
_.mtime  # tarfile's

# Methods and attributes that a library calls or reads: prometheus_client, aiohttp, h2, asyncio, sigstore, grpc,
# openshift.
_.ocp_username
_.ocp_password
_.local_settings
_.max_header_list_size
_.max_inbound_frame_size
_.pause_writing
_.resume_writing
_.collect
_.proto
_.handle_error
_._serving  # the agent's port of metrics, which ends by itself
_._verify_signed_timestamp
_.Get
_.GetAllocatableResources

# Fields of pods in a custom resource that is written as it was read.
_.operator
_.match_expressions
_.match_fields
_.node_selector_terms
_.preference
_.required_during_scheduling_ignored_during_execution
_.preferred_during_scheduling_ignored_during_execution
_.node_affinity
_.pod_affinity
_.pod_anti_affinity
_.effect
_.toleration_seconds

# Facts of kernel caches which their manifests name; not all are compared yet.
_.dummy_key
_.artifact_count
_.artifact_names
_.target_device
_.model_file
_.file_size
_.aot_compile
_.graph_hash
_.synapse_version
_.recipe_size
_.metadata_size
_.split_capture  # read from labels, and for what extracts several trees later
_.variant
_.IO  # in a quoted type
_.EMPTY_JSON  # nothing writes an empty configuration yet

# Read by the templates of roles, through a lookup.
_.assignments
_.node_annotations
_.node_labels
_.node_label_prefixes

# Read by tarfile.
_.linkname

# Fields of GKM's custom resources, which are written or read as a whole.
_.priority_class_name
_.pv_name
_.node_cnt
_.node_in_use_cnt
_.node_not_in_use_cnt
_.pod_running_cnt
_.pod_deleting_cnt
_.pod_outdated_cnt
_.gpu_type
_.volume_id
_.compatible_gpus
_.incompatible_gpus
_.volume_size
_.in_tree_module

# A field of taints, which are written as a whole.
_.time_added
