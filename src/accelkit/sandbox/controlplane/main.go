// Command controlplane contains etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and kubectl in one binary, so that the Kubernetes libraries
// are linked and stored only once. To run a component, use a symbolic link
// with the component's name, or `controlplane COMPONENT [FLAG...]`.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // Time zones for CronJobs, because the machine may not have zone files.

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // credential plugins of kubectl
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the client's metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info on /metrics
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const usage = "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl [FLAG...]"

// play runs the named component with the flags os.Args[1:] until it exits.
// If the component does not exist, play runs nothing and known is false.
// Only the command of the requested component is constructed, because each
// constructor registers feature gates and flags in process-wide registries.
func play(name string) (status int, known bool) {
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
		return 0, true
	case "kube-apiserver":
		return cli.Run(apiserver.NewAPIServerCommand()), true
	case "kube-controller-manager":
		return cli.Run(controllermanager.NewControllerManagerCommand()), true
	case "kube-scheduler":
		return cli.Run(scheduler.NewSchedulerCommand()), true
	case "kubectl":
		// The constructor of kubectl's command searches for plugins and
		// preferences before it parses flags, so -v must be set before.
		_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
		kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
		return 0, true
	}
	return 0, false
}

func main() {
	status, known := play(filepath.Base(os.Args[0]))
	if !known && len(os.Args) > 1 {
		// The components read os.Args themselves, so it must not contain the
		// name of the component as a flag.
		os.Args = os.Args[1:]
		status, known = play(os.Args[0])
	}
	if !known {
		fmt.Fprintln(os.Stderr, usage)
		status = 2
	}
	os.Exit(status)
}
