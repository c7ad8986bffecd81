// Command tare-tracer is tare's agent with a tracer in it. tare why puts it into environments instead of the
// agent, and it leaves them as the agent does.
package main

import (
	"os"

	"tare/internal/measure/agent"
	"tare/internal/measure/agent/pid1"
	"tare/internal/measure/agent/tracer"
	"tare/internal/sys/trace"
)

func main() {
	if trace.IsRole(os.Args) {
		os.Exit(trace.Main(os.Stdin, os.Stdout))
	}
	agent.Tracing = tracer.New()
	if pid1.Wanted() {
		os.Exit(pid1.Main())
	}
	os.Exit(agent.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
