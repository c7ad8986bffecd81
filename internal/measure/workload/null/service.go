package null

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"tare/internal/measure/workload"
	"tare/internal/record"
)

// newService returns a service that does nothing, if the parameters ask for one.
func newService(p workload.Params) *workload.Service {
	if !p.Bool("service") {
		return nil
	}
	return &workload.Service{Key: "null", Start: func(context.Context, *workload.Bench) (workload.Running, error) {
		return service{}, nil
	}}
}

// service is a service whose endpoint is the number of its process.
type service struct{}

func (service) Endpoint() string           { return strconv.Itoa(os.Getpid()) }
func (service) Done() <-chan struct{}      { return nil }
func (service) Ended() *record.Failure     { return nil }
func (service) Stop(context.Context) error { return nil }

// find checks that the service's process exists.
func find(b *workload.Bench) error {
	pid, err := strconv.Atoi(b.Service.Endpoint)
	if err != nil {
		return fmt.Errorf("find the service: %w", err)
	}
	p, err := os.FindProcess(pid)
	if err == nil && runtime.GOOS != "windows" { // there, FindProcess fails if it does not exist
		err = p.Signal(syscall.Signal(0))
	}
	if err != nil {
		return fmt.Errorf("find the service, process %d: %w", pid, err)
	}
	b.Note("service_pid", b.Service.Endpoint)
	b.Note("service_starts", strconv.FormatInt(b.Service.Starts, 10))
	b.Note("service_trials", strconv.FormatInt(b.Service.Trials, 10))
	return nil
}
