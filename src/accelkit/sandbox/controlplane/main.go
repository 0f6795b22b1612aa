// Command controlplane is etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and kubectl in one binary: linked together they share the
// Kubernetes libraries, which would otherwise be linked and stored five times.
// A symbolic link named after a component runs that component, and so does
// `controlplane COMPONENT [FLAG...]`.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs name time zones, and the machine may have no zone files.

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's credential plugins.
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

// play runs the named component, whose flags are os.Args[1:], to its end.
// known is false, and nothing has run, when there is no such component.
// Commands are constructed only for the component that runs: constructing one
// registers feature gates and flags in process-wide registries.
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
		// kubectl looks for plugins and its preferences while its command is
		// constructed, before any flag is parsed; -v has to count there too.
		_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
		kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
		return 0, true
	}
	return 0, false
}

func main() {
	status, known := play(filepath.Base(os.Args[0]))
	if !known && len(os.Args) > 1 {
		// The components read os.Args themselves and must not see their own
		// name as a flag.
		os.Args = os.Args[1:]
		status, known = play(os.Args[0])
	}
	if !known {
		fmt.Fprintln(os.Stderr, usage)
		status = 2
	}
	os.Exit(status)
}
