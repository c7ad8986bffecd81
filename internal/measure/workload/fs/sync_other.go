//go:build !darwin && !freebsd && !(linux && (amd64 || arm64 || riscv64 || loong64 || ppc64le || s390x))

package fs

import "os"

func plainSync(f *os.File) error { return f.Sync() }
