//go:build !linux

package namespace

import (
	"context"

	"tare/internal/lab/env"
)

const remedy = "use a container engine, such as docker, or the micro-VM, qemu"

func open(_ context.Context, o env.Options) (env.Env, error) {
	return nil, &env.OpenError{Env: o.Name, Op: "set up container", Err: ErrUnsupported, Remedy: remedy}
}

func probe(context.Context) env.Status {
	return env.Status{Detail: ErrUnsupported.Error(), Remedy: remedy}
}
