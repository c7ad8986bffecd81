package qemu

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"tare/internal/lab/driver/limited"
	"tare/internal/lab/env"
	"tare/internal/lab/rootfs"
	"tare/internal/lab/stack"
)

// debianOptions describe the image for the settings.
func (c *config) debianOptions() rootfs.Options {
	return rootfs.Options{Arch: c.arch, Packages: c.root.packages}
}

// lookupRoot finds the image of root=debian in the cache and returns its digest. Building one takes minutes and the
// network, so that is a separate command, like fetching a kernel.
func (b *boot) lookupRoot() (sha256 string, err error) {
	o := b.config.debianOptions()
	b.remedy = rootfs.Remedy(o)
	img, err := rootfs.Lookup(o)
	if err != nil {
		return "", err
	}
	var versions []string
	for _, p := range slices.Sorted(maps.Keys(img.Versions)) {
		versions = append(versions, p+" "+img.Versions[p])
	}
	b.config.root.path = img.Path
	b.facts["root.suite"], b.facts["root.packages"], b.facts["root.tool"] = img.Suite, strings.Join(versions, ", "),
		img.Tool
	return img.SHA256, nil
}

// has tells whether the root image of a spec is on this machine.
func has(_ context.Context, s env.Spec) env.Status {
	c, err := parse(&s)
	if err != nil {
		return env.Status{OK: true} // the error of opening says more
	}
	if remedy, err := canNetwork(&c); err != nil {
		return env.Status{Detail: err.Error(), Remedy: remedy}
	}
	if got := limited.Has(s, groupSettings()); !got.OK {
		return got
	}
	switch c.root.want {
	case "":
	case rootStack:
		return stack.Has(context.Background(), s)
	case rootDebian:
		o := c.debianOptions()
		if _, err := rootfs.Lookup(o); err != nil {
			return env.Status{Detail: err.Error()}
		}
	default:
		if _, err := os.Stat(c.root.want); err != nil {
			return env.Status{Detail: fmt.Sprintf("root image: %v", err), Remedy: "use another file with root=PATH"}
		}
	}
	return env.Status{OK: true}
}
