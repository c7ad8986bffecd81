// Command tare weighs environments. The same executable is the controller and, started in a role, an agent or worker.
package main

import (
	"os"

	"tare/internal/agent"
	"tare/internal/agent/pid1"
	"tare/internal/cli"
)

func main() {
	if pid1.Wanted() {
		os.Exit(pid1.Main())
	}
	if agent.IsRole(os.Args) {
		os.Exit(agent.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
