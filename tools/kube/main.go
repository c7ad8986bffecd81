// Command kube is the control plane of a Kubernetes cluster, and kubectl, in one program. Tests run it: no package of
// Debian's has these. Its first argument says which part it is: etcd, apiserver, controllers, scheduler or kubectl.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kube etcd|apiserver|controllers|scheduler|kubectl ARGUMENT...")
		os.Exit(2)
	}
	role := os.Args[1]
	os.Args = append([]string{role}, os.Args[2:]...)
	switch role {
	case "etcd":
		etcdmain.Main(os.Args)
	case "apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "controllers":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	case "scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubectl":
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	default:
		fmt.Fprintf(os.Stderr, "kube: there is no part %q\n", role)
		os.Exit(2)
	}
}
