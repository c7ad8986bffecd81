//go:build !linux || !(amd64 || arm64 || riscv64)

package syscalls

import (
	"fmt"
	"runtime"

	"tare/internal/sys/thread"
)

func newOperation(info opInfo) (operation, error) {
	return nil, fmt.Errorf("%s: %w: only Linux on x86-64, arm64 or riscv64 can be measured, and this is %s/%s",
		info.name, thread.ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}
