//go:build !linux && !darwin && !freebsd && !windows

package sysinfo

import "context"

// system adds nothing on this platform.
func (c *collector) system(context.Context) {}

// workDir adds nothing on this platform.
func (c *collector) workDir(string) {}
