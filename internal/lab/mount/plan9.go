package mount

import (
	"context"
	"fmt"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
)

// kind9p is the mount that QEMU itself serves.
func kind9p() kind {
	return kind{env.MountKind{
		Name: "9p",
		Doc: "QEMU's own 9p server over virtio; fsync reaches the host's file system; cache= sets what the guest " +
			"caches.",
		Shared: true,
		Settings: []env.Setting{
			settingDir(),
			{Name: "msize", Default: "512000", Doc: "Largest message, bytes, 4096 to 16MiB; over virtio at most " +
				"512000.",
				Check: sized(4096, 16<<20), Try: []string{"8192", "131072", "512000"}},
			{Name: "cache", Default: "none", Doc: "What the guest caches: none, readahead, mmap, loose or fscache.",
				Check: env.OneOf("none", "readahead", "mmap", "loose", "fscache"),
				Try:   []string{"none", "readahead", "mmap", "loose"}},
			{Name: "security_model", Default: "none", Doc: "How owners and modes are stored: none (as far as " +
				"QEMU's user may), passthrough (QEMU must be root), mapped-xattr or mapped-file.",
				Check: env.OneOf("none", "passthrough", "mapped-xattr", "mapped-file")},
			{Name: "writeout", Default: "off", Doc: "on makes QEMU start writing to the host's disk at once.",
				Check: onOff()},
		},
	}, serve9p}
}

func serve9p(_ context.Context, j *job) (*Served, error) {
	j.op, j.remedy = "configure QEMU's 9p server", ""
	msize, err := parseSize(j.get("msize"))
	if err != nil {
		return nil, err
	}
	id, tag := "fs-"+j.Name, tagOf(j.Name)
	fsdev := "local,id=" + id + ",path=" + comma(j.Folder) + ",security_model=" + j.get("security_model") +
		",multidevs=remap"
	if strings.HasPrefix(j.get("security_model"), "mapped") {
		// QEMU's own defaults, 0600 and 0700, are not the modes that the guest asks for.
		fsdev += ",fmode=0644,dmode=0755"
	}
	if j.on("writeout") {
		fsdev += ",writeout=immediate"
	}
	modules := []string{"9p", "9pnet_virtio"}
	var optional []string
	if j.get("cache") == "fscache" {
		optional = []string{"fscache", "cachefiles"}
	}
	return &Served{
		Mount: record.Mount{Server: "QEMU"},
		Order: &guestabi.Mount{
			Dir: j.get("dir"), Type: "9p", Source: tag,
			Options: fmt.Sprintf("trans=virtio,version=9p2000.L,msize=%d,cache=%s", msize, j.get("cache")),
		},
		Modules: modules, Optional: optional,
		Share:   &Folder{Tag: tag, Path: j.Folder, Model: j.get("security_model"), Immediate: j.on("writeout")},
		Devices: []string{"-fsdev", fsdev, "-device", "virtio-9p-pci,fsdev=" + id + ",mount_tag=" + tag},
	}, nil
}
