"""The command `accelkit extender`."""

from __future__ import annotations

from pathlib import Path

import click
import uvloop

from accelkit import __version__
from accelkit.command_options import FILE, kubeconfig_option, log_folder_option, log_format_option
from accelkit.extender.groups.pod_groups import GroupTimes
from accelkit.extender.leadership import parse_replica
from accelkit.extender.listen import parse_listen, parse_reads
from accelkit.extender.service import ExtenderOptions, run
from accelkit.extender.verbs import MOST_NODES
from accelkit.logs import LogFormat, set_up_service_log
from accelkit.model.units import parse_unit
from accelkit.plugins.policies import list_policy_names, load_policy
from accelkit.serving.tls import CLIENT_NAME, Listen
from accelkit.vendors.dialects import list_dialect_names, load_dialect


@click.command(short_help="Serve kube-scheduler.")
@click.version_option(__version__, prog_name="accelkit extender")
@click.option("--listen", default="0.0.0.0:32766", show_default=True, help="Address and port to serve on.")
@click.option("--plain-http", is_flag=True, help="Serve without TLS, on a loopback address only.")
@click.option("--tls-cert", type=FILE, help="Certificate chain of this server (PEM).")
@click.option("--tls-key", type=FILE, help="Private key of this server (PEM).")
@click.option("--client-ca", type=FILE, help="Authority that signed the clients' certificates (PEM).")
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    default=(CLIENT_NAME,),
    show_default=True,
    help="Common name or DNS name that a client's certificate must have; repeatable.",
)
@click.option("--unit", default="1GiB", show_default=True, help="Unit of accelkit.io/memory in the cluster.")
@click.option(
    "--policy",
    type=click.Choice(list_policy_names()),
    default="binpack",
    show_default=True,
    help="Policy that ranks cards and nodes that fit.",
)
@click.option(
    "--most-nodes",
    type=click.IntRange(min=0),
    default=MOST_NODES,
    show_default=True,
    help="Maximum number of nodes that filter returns, the best by the policy; 0 for all nodes that fit.",
)
@click.option(
    "--dialect",
    "dialects",
    type=click.Choice(list_dialect_names()),
    multiple=True,
    default=("native",),
    show_default=True,
    help="Dialect of the pods to read; repeatable.",
)
@click.option(
    "--sharing-rules",
    envvar="ACCELKIT_SHARING_RULES",
    type=FILE,
    help="YAML file with quotas of namespaces and reserved cards; reloaded when it changes.",
)
@kubeconfig_option
@click.option(
    "--probe-port", type=click.IntRange(1, 65535), help="Port for /healthz, /readyz, /version, /metrics, without TLS."
)
@click.option(
    "--read-port",
    type=click.IntRange(1, 65535),
    help="With --service: TLS port for GET /inspect and /version, for clients with a token of the API server.",
)
@click.option(
    "--certificates",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of certificates whose expiry /metrics reports; NAME.crt contains the certificate of Secret NAME.",
)
@click.option("--lease", help="NAMESPACE/NAME of the Lease that elects the replica that binds; omit for one replica.")
@click.option("--identity", envvar="POD_NAME", help="With --lease: name of this replica, unique among the replicas.")
@click.option("--advertise", envvar="POD_IP", help="With --service: address of this replica in the cluster.")
@click.option("--service", help="With --lease: name of the Service whose EndpointSlice the leader writes.")
@click.option(
    "--http2/--no-http2",
    default=True,
    show_default=True,
    envvar="ACCELKIT_HTTP2",
    help="Serve HTTP/2 to clients that support it, with all requests on one connection, and HTTP/1.1 to other clients.",
)
@click.option(
    "--wake/--no-wake",
    default=False,
    show_default=True,
    help="Annotate nodes with freed cards, so that kube-scheduler retries waiting pods; requires Kubernetes 1.30.",
)
@click.option(
    "--pod-groups/--no-pod-groups",
    envvar="ACCELKIT_POD_GROUPS",
    default=False,
    show_default=True,
    help="Assign cards to all pods of a group together, or to none of its pods.",
)
@click.option(
    "--pod-group-seconds",
    envvar="ACCELKIT_POD_GROUP_SECONDS",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="With --pod-groups: seconds for which cards remain reserved for a group until all its pods are bound.",
)
@click.option(
    "--pod-group-hold",
    envvar="ACCELKIT_POD_GROUP_HOLD",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="With --pod-groups: seconds for which a bind waits for other pods of its group; use half of httpTimeout.",
)
@click.option(
    "--container-limits/--no-container-limits",
    default=False,
    show_default=True,
    help="Annotate pods with the limits of each container on NVIDIA cards, which KAI's gpu-fractioning enforces.",
)
@click.option(
    "--evict-for-priority/--no-evict-for-priority",
    envvar="ACCELKIT_EVICT_FOR_PRIORITY",
    default=False,
    show_default=True,
    help="Evict pods for a pod of higher priority if it fits the total amounts of a node, but none of its cards.",
)
@log_format_option
@log_folder_option
def extender(  # noqa: PLR0917 - click passes options by name
    listen: str,
    plain_http: bool,  # noqa: FBT001 - the same
    tls_cert: Path | None,
    tls_key: Path | None,
    client_ca: Path | None,
    client_names: tuple[str, ...],
    unit: str,
    policy: str,
    most_nodes: int,
    dialects: tuple[str, ...],
    sharing_rules: Path | None,
    kubeconfig: Path | None,
    probe_port: int | None,
    read_port: int | None,
    certificates: Path | None,
    lease: str | None,
    identity: str | None,
    advertise: str | None,
    service: str | None,
    http2: bool,  # noqa: FBT001 - the same
    wake: bool,  # noqa: FBT001 - the same
    pod_groups: bool,  # noqa: FBT001 - the same
    pod_group_seconds: float,
    pod_group_hold: float,
    container_limits: bool,  # noqa: FBT001 - the same
    evict_for_priority: bool,  # noqa: FBT001 - the same
    log_format: str,
    log_dir: Path | None,
) -> None:
    """Serve kube-scheduler: filter and prioritize nodes, and bind pods, based on the memory of each card."""
    set_up_service_log(load_dialect(dialects[0]).logs.extender, log_dir, LogFormat(log_format))
    address = parse_listen(
        listen,
        plain_http=plain_http,
        certificate=tls_cert,
        key=tls_key,
        client_ca=client_ca,
        client_names=client_names,
    )
    probes = Listen(address.host, probe_port) if probe_port else None
    replica = parse_replica(
        address.port, lease=lease, identity=identity, advertise=advertise, service=service, read_port=read_port
    )
    reads = parse_reads(address, read_port, service)
    options = ExtenderOptions(
        address,
        parse_unit(unit),
        load_policy(policy),
        dialects,
        kubeconfig=kubeconfig,
        replica=replica,
        probes=probes,
        wake=wake,
        reads=reads,
        certificates=certificates,
        container_limits=container_limits,
        most_nodes=most_nodes,
        http2=http2,
        sharing_rules=sharing_rules,
        groups=GroupTimes(pod_group_seconds, pod_group_hold) if pod_groups else None,
        evict_for_priority=evict_for_priority,
    )
    uvloop.run(run(options))
