// Package sysinfo describes the system under test from inside, in the system's own words: CPU, clock, kernel,
// hypervisor, mounts, disks, limits, mitigations. On the controller's host it also watches whether the machine is
// quiet.
//
// It is opinionated: it reads and never changes; a fact that cannot be had is left out, never guessed; and every parser
// of the kernel's text is a pure function.
package sysinfo
