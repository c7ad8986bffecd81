// Command tare weighs environments. The same executable is the controller and, started in a role, an agent or worker.
package main

import (
	"os"

	"tare/internal/agent"
	"tare/internal/cli"
)

func main() {
	if agent.IsRole(os.Args) {
		os.Exit(agent.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
