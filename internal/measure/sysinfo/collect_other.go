//go:build !linux && !darwin && !freebsd && !windows

package sysinfo

import "context"

// system knows nothing more here.
func (c *collector) system(context.Context) {}

// workDir knows nothing more here.
func (c *collector) workDir(string) {}
