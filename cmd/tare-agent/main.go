// Command tare-agent is tare's agent: it runs the workloads inside an environment for a controller.
package main

import (
	"os"

	"tare/internal/measure/agent"
	"tare/internal/measure/agent/pid1"
)

func main() {
	if pid1.Wanted() {
		os.Exit(pid1.Main())
	}
	os.Exit(agent.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
