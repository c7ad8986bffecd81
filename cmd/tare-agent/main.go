// Command tare-agent is tare's slim agent: it runs the workloads inside an environment for a controller.
package main

import (
	"os"

	"tare/internal/agent"
)

func main() {
	os.Exit(agent.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
