// Command tare weighs environments. The same executable is the controller and, started in a role, an agent or worker.
package main

import (
	"os"

	"tare/internal/cli"
	"tare/internal/measure/agent"
	"tare/internal/measure/agent/pid1"
	"tare/internal/measure/agent/tracer"
	"tare/internal/sys/trace"
)

func main() {
	if pid1.Wanted() {
		agent.Tracing = tracer.New()
		os.Exit(pid1.Main())
	}
	if agent.IsRole(os.Args) {
		agent.Tracing = tracer.New()
		os.Exit(agent.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	if trace.IsRole(os.Args) {
		os.Exit(trace.Main(os.Stdin, os.Stdout))
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
