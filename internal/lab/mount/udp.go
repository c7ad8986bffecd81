package mount

import (
	"bytes"
	"errors"
	"fmt"

	"tare/internal/lab/env"
)

// CodeNFSUDP is the code of the finding that a guest cannot mount NFS over UDP.
const CodeNFSUDP = "nfs-udp-unavailable"

// ErrNFSUDP is the error of a guest's kernel that rejects NFS over UDP.
var ErrNFSUDP = errors.New(CodeNFSUDP + ": the guest's kernel was built without NFS over UDP " +
	"(CONFIG_NFS_DISABLE_UDP_SUPPORT, the default since Linux 5.6 and in Debian's kernels). " +
	"Vagrant's default for NFS below version 4 is UDP, so its mounts fail there until the Vagrantfile says nfs_udp: " +
	"false; use proto=tcp")

// CheckKernel says what a guest's kernel lacks for a mount, according to its build configuration: the text of
// /boot/config-RELEASE. It is nil if the configuration is nil, which means unknown.
func CheckKernel(s env.Spec, config []byte) error {
	if config == nil {
		return nil
	}
	has := func(name string) bool {
		return configHas(config, name, "y") || configHas(config, name, "m")
	}
	needs := map[string][]string{
		"9p": {"NET_9P", "NET_9P_VIRTIO", "9P_FS"}, "virtiofs": {"VIRTIO_FS"}, "smb": {"CIFS"}, "sshfs": {"FUSE_FS"},
		"nfs": {"NFS_FS", "NFS_V4"},
	}[s.Driver]
	if s.Driver == "nfs" && s.Get("vers", "4.2") == "3" {
		needs = []string{"NFS_FS", "NFS_V3"}
	}
	for _, name := range needs {
		if !has(name) {
			return fmt.Errorf("the guest's kernel was built without CONFIG_%s, which %s needs; use a kernel with "+
				"more drivers: kernel=generic", name, s.Driver)
		}
	}
	if s.Driver == "nfs" && s.Get("proto", "tcp") == "udp" && configHas(config, "NFS_DISABLE_UDP_SUPPORT", "y") {
		return ErrNFSUDP
	}
	return nil
}

// configHas tells whether a kernel's configuration has the line CONFIG_NAME=VALUE.
func configHas(config []byte, name, value string) bool {
	line := []byte("CONFIG_" + name + "=" + value)
	for l := range bytes.SplitSeq(config, []byte("\n")) {
		if bytes.Equal(bytes.TrimSpace(l), line) {
			return true
		}
	}
	return false
}
